package s3lease

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// serverURL returns the URL of a server.
func serverURL(t testing.TB, variable string) string {
	t.Helper()
	return servertest.Require(t, variable)
}

// servers are independent implementations.
var servers = map[string]string{"versitygw": "LEASING_TEST_S3", "gofakes3": "LEASING_TEST_GOFAKES3"}

func open(t testing.TB, url string) *Provider {
	t.Helper()
	p, err := OpenURL(t.Context(), url)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// openUnprobed returns a provider that has sent no request to its store.
func openUnprobed(t testing.TB, o Options) *Provider {
	t.Helper()
	require.NoError(t, o.complete())
	client, transport, err := o.client(t.Context())
	require.NoError(t, err)
	p := newProvider(o, client, transport)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// silentProvider returns a provider whose store accepts connections and never answers.
func silentProvider(t testing.TB) *Provider {
	return openUnprobed(t, Options{Bucket: "b", Endpoint: "http://" + faulttest.Silent(t), AccessKey: "k", SecretKey: providerkit.NewSecret("s")})
}

// newServer starts a server for the test. at returns the URL of the server at an address.
func newServer(t testing.TB, name string) (s *servertest.Server, at func(addr string) string) {
	t.Helper()
	serverURL(t, servers[name])
	program, data := servertest.Tool(t, "", "../../integration/tools/s3", name), t.TempDir()
	require.NoError(t, os.Mkdir(filepath.Join(data, "leasing"), 0o700)) // the bucket
	at = func(addr string) string {
		return "s3://leasing:test-secret@leasing?path_style=true&endpoint=http://" + addr
	}
	s = &servertest.Server{T: t, Dir: t.TempDir()}
	s.Command = func() (*exec.Cmd, error) {
		if name == "gofakes3" {
			return exec.Command(program, "-backend", "memory", "-host", s.Addr(), "-initialbucket", "leasing", "-quiet"), nil
		}
		cmd := exec.Command(program, "--quiet", "--keep-alive", "--port", s.Addr(), "posix", data)
		cmd.Env = append(os.Environ(), "ROOT_ACCESS_KEY=leasing", "ROOT_SECRET_KEY=test-secret")
		return cmd, nil
	}
	s.Answers = func(ctx context.Context) error {
		p, err := OpenURL(ctx, at(s.Addr()))
		if err == nil {
			err = p.Close()
		}
		return err
	}
	t.Cleanup(s.Close)
	require.NoError(t, s.Launch(t.Context()))
	return s, at
}

// wireOptions returns options for a client of gofakes3, which checks no signatures. The
// client's requests go through a wire. Each result has a prefix of its own.
func wireOptions(t testing.TB) (Options, *faulttest.Wire) {
	t.Helper()
	o := Options{URL: serverURL(t, servers["gofakes3"])}
	require.NoError(t, o.complete())
	client, transport, err := o.client(t.Context())
	require.NoError(t, err)
	t.Cleanup(transport.CloseIdleConnections)
	options := client.Options()
	var w *faulttest.Wire
	options.HTTPClient, w = faulttest.NewWire(transport)
	return Options{Bucket: o.Bucket, Prefix: abstractions.NewID(), Client: s3.New(options)}, w
}

func acquireRequest(id string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: "n", ID: id, Owner: "test", TTL: ttl}
}

func renewRequest(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State}
}

func releaseRequest(g abstractions.Grant) abstractions.ReleaseRequest {
	return abstractions.ReleaseRequest{Name: g.Name, ID: g.ID, Token: g.Token, State: g.State}
}

func acquire(t testing.TB, p *Provider, id string) abstractions.Grant {
	t.Helper()
	g, err := p.Acquire(t.Context(), acquireRequest(id, time.Minute))
	require.NoError(t, err)
	return g
}
