package consullease

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// named is the URL of a server. Building one takes minutes, so make test has none.
func named(t testing.TB) string {
	t.Helper()
	url := os.Getenv("LEASING_TEST_CONSUL")
	if url == "" {
		t.Skip("needs Consul: run make test-all, or set LEASING_TEST_CONSUL to the URL of a server: see CONTRIBUTING.md")
	}
	return url
}

func open(t testing.TB, o Options) *Provider {
	t.Helper()
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// unasked is a provider whose server has not been asked anything.
func unasked(t testing.TB, o Options) *Provider {
	t.Helper()
	require.NoError(t, o.complete())
	p := newProvider(o)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// silent is a provider whose server takes connections and says nothing.
func silent(t testing.TB) *Provider {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	return unasked(t, Options{Address: "http://" + listener.Addr().String()})
}

// program is Consul itself, built at the version that integration/tools/consul pins.
var program = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("CONSUL"); path != "" {
		return path, nil
	}
	cmd := exec.Command("go", "tool", "-n", "consul")
	cmd.Dir = filepath.Join("..", "..", "integration", "tools", "consul")
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=")
	path, err := cmd.Output()
	return strings.TrimSpace(string(path)), err
})

// server is one of the test's own, which keeps its data when it is killed.
type server struct {
	*servertest.Process
	t       testing.TB
	address string
	args    []string
}

// newServer starts one, with more configuration.
func newServer(t testing.TB, config string) *server {
	t.Helper()
	named(t)
	var ports [4]int
	for i := range ports {
		var err error
		ports[i], err = servertest.FreePort(t.Context())
		require.NoError(t, err)
	}
	s := &server{t: t, address: fmt.Sprintf("http://127.0.0.1:%d", ports[0])}
	s.args = []string{
		"agent", "-server", "-bootstrap-expect=1", "-data-dir", t.TempDir(), "-node", "n", "-bind", "127.0.0.1", "-client", "127.0.0.1", "-log-level", "error",
		"-hcl", fmt.Sprintf(`ports { http = %d, server = %d, serf_lan = %d, serf_wan = -1, dns = -1, grpc = -1, grpc_tls = -1 }
			performance { raft_multiplier = 1 } disable_update_check = true %s`, ports[0], ports[1], ports[2], config),
	}
	s.start()
	t.Cleanup(func() { s.Kill() })
	return s
}

// start starts it, also again, and waits until it has a leader.
func (s *server) start() {
	s.t.Helper()
	path, err := program()
	require.NoError(s.t, err, "go tool -n consul, in integration/tools/consul")
	s.Process, err = servertest.StartProcess(exec.Command(path, s.args...))
	require.NoError(s.t, err)
	servertest.Eventually(s.t, "Consul has a leader", func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.address+"/v1/status/leader", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if leader := make([]byte, 8); true {
			if n, _ := response.Body.Read(leader); n < 8 {
				return fmt.Errorf("%s: no leader", response.Status)
			}
		}
		return nil
	})
}

type sender = func(*http.Request) (*http.Response, error)

// wire is what requests go through: it sends them to the server, or does not.
type wire func(req *http.Request, send sender) (*http.Response, error)

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) {
	return r(req.Clone(req.Context()))
}

// through is a provider whose requests go through a wire, which changes nothing at first.
func through(t testing.TB, o Options) (*Provider, *wire) {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	w := wire(func(req *http.Request, send sender) (*http.Response, error) { return send(req) })
	o.Client = &http.Client{Transport: roundTripper(func(req *http.Request) (*http.Response, error) { return w(req, transport.RoundTrip) })}
	return unasked(t, o), &w
}

func wish(name string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "test", TTL: ttl}
}

func renewal(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State}
}
