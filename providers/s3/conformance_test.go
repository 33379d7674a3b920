package s3lease

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// The tests are not parallel: the stacks of the SDK's requests are too deep for goleak,
// which checks all goroutines.
func TestConformance(t *testing.T) { providertest.Run(t, harness(serverURL(t, "LEASING_TEST_S3"))) }
func TestConformanceGofakes3(t *testing.T) {
	servertest.Long(t)
	providertest.Run(t, harness(serverURL(t, "LEASING_TEST_GOFAKES3")))
}

func harness(url string) providertest.Harness {
	remove := func(t testing.TB, p abstractions.Provider, name string) { // deletes the object, like a lifecycle rule
		s := p.(*Provider).driver.store
		_, err := s.client.DeleteObject(t.Context(), &s3.DeleteObjectInput{Bucket: &s.bucket, Key: aws.String(s.naming.Encode(name))})
		require.NoError(t, err)
	}
	return providertest.Harness{
		New:         func(t testing.TB) abstractions.Provider { return open(t, url) },
		Peer:        func(t testing.TB, _ abstractions.Provider) abstractions.Provider { return open(t, url) },
		Forget:      remove,
		Remove:      remove,
		Records:     func(p abstractions.Provider) *cas.Records { return &p.(*Provider).driver.Records },
		Unreachable: func(t testing.TB) abstractions.Provider { return silentProvider(t) },
		HTTP: func(t testing.TB, _ abstractions.Provider) providertest.Route {
			o := Options{URL: url}
			require.NoError(t, o.complete())
			return providertest.Route{URL: o.Endpoint, Open: func(t testing.TB, url string) abstractions.Provider {
				o := o
				o.Endpoint = url
				p, err := Open(t.Context(), o)
				require.NoError(t, err)
				return p
			}}
		},
	}
}
