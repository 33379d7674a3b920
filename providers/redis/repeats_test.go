package redislease

import (
	"bytes"
	"context"
	"io"
	"net"
	"sync"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// lossyDialer dials connections that lose the reply to a script's first call, after the call has taken
// effect, and refuse the script's later calls, which have no effect.
type lossyDialer struct {
	mu      sync.Mutex
	script  *script.Program // nil: nothing is lost
	refusal string
	calls   int
}

func (l *lossyDialer) begin(script *script.Program, refusal string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.script, l.refusal, l.calls = script, refusal, 0
}

// end returns the number of calls.
func (l *lossyDialer) end() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.script = nil
	return l.calls
}

// countCall counts a call of the script.
func (l *lossyDialer) countCall(sent []byte) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.script == nil || !bytes.Contains(sent, []byte(l.script.SHA)) {
		return 0
	}
	l.calls++
	return l.calls
}

func (l *lossyDialer) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := (&net.Dialer{}).DialContext(ctx, network, addr)
	return &lossyConn{Conn: conn, dialer: l}, err
}

type lossyConn struct {
	net.Conn
	dialer *lossyDialer
	call   int // the number of the call whose reply comes next
	failed bool
}

func (c *lossyConn) Write(b []byte) (int, error) {
	if c.call = c.dialer.countCall(b); c.call > 1 {
		return len(b), nil
	}
	return c.Conn.Write(b)
}

func (c *lossyConn) Read(b []byte) (int, error) {
	call := c.call
	c.call = 0
	switch {
	case call > 1:
		return copy(b, c.dialer.refusal+"\r\n"), nil
	case call == 1:
		_, _ = c.Conn.Read(b)
		c.failed = true
	}
	if c.failed {
		return 0, io.EOF
	}
	return c.Conn.Read(b)
}

// withResendingClients runs a test with clients that resend a command after a failed connection.
func withResendingClients(t *testing.T, test func(t *testing.T, p *Provider, l *lossyDialer)) {
	l := &lossyDialer{}
	clients := map[string]redis.UniversalClient{
		"Cluster":      redis.NewClusterClient(&redis.ClusterOptions{Addrs: redistest.StartCluster(t, 3).Addrs(), Dialer: l.dial}),
		"a user's own": redis.NewClient(&redis.Options{Addr: redistest.Start(t, redistest.Options{}).Addr(), Dialer: l.dial}),
	}
	for what, client := range clients {
		t.Run(what, func(t *testing.T) {
			defer client.Close()
			test(t, openTest(t, Options{Client: client}), l)
		})
	}
}

// If a break took effect twice, it would also end the next holder's lease.
func TestTrap_T63_ABreakIsSentOnceByAClientThatRepeats(t *testing.T) {
	t.Parallel()
	withResendingClients(t, func(t *testing.T, p *Provider, l *lossyDialer) {
		for range 2 { // the second time the server has the script
			_, err := p.Acquire(t.Context(), claimOf("name"))
			require.NoError(t, err)
			_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: "name", Immediate: true})
			require.NoError(t, err)
		}
		_, err := p.Acquire(t.Context(), claimOf("name"))
		require.NoError(t, err)
		l.begin(script.Break, "-ERR not again")
		_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: "name", Immediate: true})
		require.Equal(t, 1, l.end())
		redistest.RequireUncertain(t, err)
		_, err = p.Acquire(t.Context(), claimOf("name"))
		require.NoError(t, err, "it was done")
	})
}

// If a repeated call, or a command in its script, is refused, the first call may have taken effect.
func TestTrap_T13_ARefusalMayBeThatOfARepetition(t *testing.T) {
	t.Parallel()
	withResendingClients(t, func(t *testing.T, p *Provider, l *lossyDialer) {
		for _, refusal := range []string{"-CLUSTERDOWN", "-TRYAGAIN", "-LOADING", "*1\r\n*2\r\n:7\r\n+OOM", "*1\r\n*2\r\n:7\r\n+READONLY"} {
			req := claimOf("name")
			_, err := p.Acquire(t.Context(), req) // loads the script
			require.NoError(t, err)
			require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: req.Name, ID: req.ID}))
			l.begin(script.Acquire, refusal+" not now")
			req.ID = abstractions.NewID()
			_, err = p.Acquire(t.Context(), req)
			require.Greater(t, l.end(), 1)
			redistest.RequireUncertain(t, err)
			record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: req.Name})
			require.NoError(t, err)
			require.Equal(t, abstractions.FingerprintOf(req.ID), record.Fingerprint)
			require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: req.Name, ID: req.ID}))
		}
	})
}
