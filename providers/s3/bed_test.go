package s3lease

import (
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// named is the URL of a server.
func named(t testing.TB, variable string) string {
	t.Helper()
	url := os.Getenv(variable)
	require.NotEmpty(t, url, "run make test, or set %s to the URL of a bucket: see CONTRIBUTING.md", variable)
	return url
}

// servers are of independent make.
var servers = map[string]string{"versitygw": "LEASING_TEST_S3", "gofakes3": "LEASING_TEST_GOFAKES3"}

func open(t testing.TB, url string) *Provider {
	t.Helper()
	p, err := OpenURL(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// unprobed is a provider whose store has not been asked anything.
func unprobed(t testing.TB, o Options) *Provider {
	t.Helper()
	require.NoError(t, o.complete())
	client, transport, err := o.client(t.Context())
	require.NoError(t, err)
	p := newProvider(o, client, transport)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// silent is a provider whose store takes connections and says nothing.
func silent(t testing.TB) *Provider {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	return unprobed(t, Options{Bucket: "b", Endpoint: "http://" + listener.Addr().String(), AccessKey: "k", SecretKey: providerkit.NewSecret("s")})
}

// wire is what requests go through: it sends them to the store, or does not.
type wire func(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error)

// through are options of a client of gofakes3, which checks no signatures, whose requests
// go through a wire. Each has a prefix of its own.
func through(t testing.TB, w wire) Options {
	t.Helper()
	o := Options{URL: named(t, servers["gofakes3"])}
	require.NoError(t, o.complete())
	client, transport, err := o.client(t.Context())
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	options := client.Options()
	options.HTTPClient = &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) { return w(req, transport.RoundTrip) })}
	return Options{Bucket: o.Bucket, Prefix: abstractions.NewID(), Client: s3.New(options)}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	return r(req.Clone(req.Context()))
}

// straight changes nothing.
func straight(req *http.Request, send func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	return send(req)
}

func wish(id string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: "n", ID: id, Owner: "test", TTL: ttl}
}

func renewal(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State}
}

func giveUp(g abstractions.Grant) abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State}
}

func acquire(t testing.TB, p *Provider, id string) abstractions.Grant {
	t.Helper()
	g, err := p.Acquire(t.Context(), wish(id, time.Minute))
	require.NoError(t, err)
	return g
}
