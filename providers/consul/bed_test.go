package consullease

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/faulttest"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

// serverURL returns the URL of a server. Building a server takes minutes, so "make test"
// does not start Consul.
func serverURL(t testing.TB) string {
	t.Helper()
	return servertest.Require(t, "LEASING_TEST_CONSUL")
}

func open(t testing.TB, o Options) *Provider {
	t.Helper()
	p, err := Open(t.Context(), o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// openUnprobed returns a provider that has sent no request to its server.
func openUnprobed(t testing.TB, o Options) *Provider {
	t.Helper()
	require.NoError(t, o.complete())
	tokens, err := o.tokens()
	require.NoError(t, err)
	p := newProvider(o, tokens)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// silentProvider returns a provider whose server accepts connections and never answers.
func silentProvider(t testing.TB) *Provider {
	return openUnprobed(t, Options{Address: "http://" + faulttest.Silent(t)})
}

// newServer starts a server for the test, with additional configuration. The server keeps its data when it is killed, and counts
// as started when it has a leader.
func newServer(t testing.TB, config string) *servertest.Server {
	t.Helper()
	serverURL(t)
	program, data := servertest.Tool(t, "CONSUL", "../../integration/tools/consul", "consul"), t.TempDir()
	var ports [2]int
	for i := range ports {
		var err error
		ports[i], err = servertest.FreePort(t.Context())
		require.NoError(t, err)
	}
	s := &servertest.Server{T: t, Dir: t.TempDir()}
	s.Command = func() (*exec.Cmd, error) {
		return exec.Command(program, "agent", "-server", "-bootstrap-expect=1", "-data-dir", data, "-node", "n", "-bind", "127.0.0.1", "-client", "127.0.0.1", "-log-level", "error",
			"-hcl", fmt.Sprintf(`ports { http = %d, server = %d, serf_lan = %d, serf_wan = -1, dns = -1, grpc = -1, grpc_tls = -1 }
			performance { raft_multiplier = 1 } disable_update_check = true %s`, s.Port(), ports[0], ports[1], config)), nil
	}
	s.Answers = func(ctx context.Context) error {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr()+"/v1/status/leader", nil)
		if err != nil {
			return err
		}
		response, err := http.DefaultTransport.RoundTrip(req)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if n, _ := response.Body.Read(make([]byte, 8)); n < 8 {
			return fmt.Errorf("%s: no leader", response.Status)
		}
		return nil
	}
	t.Cleanup(s.Close)
	require.NoError(t, s.Launch(t.Context()))
	return s
}

// openOverWire returns a provider whose requests go through a wire, which at first causes no faults.
func openOverWire(t testing.TB, o Options) (*Provider, *faulttest.Wire) {
	t.Helper()
	transport := &http.Transport{MaxConnsPerHost: connections}
	t.Cleanup(transport.CloseIdleConnections)
	var w *faulttest.Wire
	o.Client, w = faulttest.NewWire(transport)
	return openUnprobed(t, o), w
}

func acquireRequest(name string, ttl time.Duration) abstractions.AcquireRequest {
	return abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "test", TTL: ttl}
}

func renewRequest(g abstractions.Grant) abstractions.RenewRequest {
	return abstractions.RenewRequest{Name: g.Name, ID: g.ID, Token: g.Token, TTL: g.TTL, State: g.State}
}
