package s3lease

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/recordstest"
)

// Later releases must be able to read the object that release 0.1.0 stored.
func TestStoredObject(t *testing.T) {
	for server, variable := range servers {
		t.Run(server, func(t *testing.T) {
			prefix := abstractions.NewID()
			p, err := Open(t.Context(), Options{URL: serverURL(t, variable), Prefix: prefix})
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, p.Close()) })
			recordstest.UsesStored(t, p, func() {
				_, err := p.driver.store.client.PutObject(t.Context(), &s3.PutObjectInput{
					Bucket: &p.driver.store.bucket, Key: aws.String(prefix + "/jobs~2Fdaily"), Body: strings.NewReader(recordstest.StoredRecord),
				})
				require.NoError(t, err)
			})
		})
	}
}
