package postgreslease

import (
	"cmp"
	"context"
	"io"
	"net"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/stretchr/testify/require"
)

// stallingProxy forwards connections to a server until silent is set. Then it still accepts
// connections and data, but returns nothing.
type stallingProxy struct {
	address string
	hangUp  context.CancelFunc
	silent  atomic.Bool
	all     sync.WaitGroup
}

func newStallingProxy(t testing.TB, server string) *stallingProxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	f := &stallingProxy{address: listener.Addr().String(), hangUp: stop}
	t.Cleanup(func() { stop(); listener.Close(); f.all.Wait() })
	f.all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			f.all.Go(func() { f.pass(ctx, client, server) })
		}
	})
	return f
}

func (f *stallingProxy) pass(ctx context.Context, client net.Conn, address string) {
	defer client.Close()
	server, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer server.Close()
	defer context.AfterFunc(ctx, func() { client.Close(); server.Close() })()
	f.all.Go(func() { defer server.Close(); f.copy(server, client) })
	f.copy(client, server)
	<-ctx.Done()
}

func (f *stallingProxy) copy(to, from net.Conn) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		if f.silent.Load() {
			to = nil
		}
		if to == nil {
			_, _ = io.Copy(io.Discard, from)
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// TestPostgresCallsEndWithTheirContexts calls a server that no longer answers, over old
// connections, over new connections, and while the pool has no free connection. It proves
// Capabilities.HeedsContext, on which the manager relies to leave no goroutine behind.
func TestPostgresCallsEndWithTheirContexts(t *testing.T) {
	server, err := url.Parse(withParameters(postgresURL(t), "schema", newSchema(t), "pool_max_conns", "3", "history", "true"))
	require.NoError(t, err)
	f := newStallingProxy(t, server.Host)
	server.Host = f.address
	ctx, p := bounded(t), openTest(t, server.String(), nil)
	require.True(t, p.Capabilities().HeedsContext)
	grant, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	waiting, leave := context.WithCancel(ctx)
	defer leave()
	_, err = p.Wait(waiting, abstractions.WaitRequest{Name: "n", ID: abstractions.NewID()}) // also opens the listener's connection
	require.NoError(t, err)

	f.silent.Store(true)
	defer f.hangUp() // Close waits for the cancellations that pgx sends to the server
	calls := map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := p.Acquire(ctx, claimOf("free", time.Minute)); return err },
		"renew":   func(ctx context.Context) error { _, err := p.Renew(ctx, renewalOf(grant)); return err },
		"batch": func(ctx context.Context) error {
			results, err := p.RenewBatch(ctx, []abstractions.RenewRequest{renewalOf(grant)})
			return cmp.Or(err, results[0].Err)
		},
		"release": func(ctx context.Context) error { return p.Release(ctx, releaseOf(grant)) },
		"break": func(ctx context.Context) error {
			_, err := p.Break(ctx, abstractions.BreakRequest{Name: "n"})
			return err
		},
		"inspect": func(ctx context.Context) error {
			_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
			return err
		},
		"list": func(ctx context.Context) error { _, err := p.List(ctx, abstractions.ListRequest{}); return err },
		"history": func(ctx context.Context) error {
			_, err := p.History(ctx, abstractions.HistoryRequest{Name: "n"})
			return err
		},
		"ping":    p.Ping,
		"sweep":   func(ctx context.Context) error { _, err := p.Sweep(ctx); return err },
		"migrate": func(ctx context.Context) error { return dialecttest.BackendOf(p).Migrate(ctx) },
	}
	for round := range 3 { // the old connections are closed after the first round
		var all sync.WaitGroup
		for what, call := range calls {
			all.Go(func() {
				short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
				defer cancel()
				begun := time.Now()
				require.Error(t, call(short), what)
				require.Less(t, time.Since(begun), 2*time.Second, "%s, round %d", what, round)
			})
		}
		all.Wait()
	}
	for what, call := range calls { // the same calls one by one, with a cancelled context instead of a deadline
		cancelled, cancel := context.WithCancel(ctx)
		timer := time.AfterFunc(50*time.Millisecond, cancel)
		begun := time.Now()
		require.Error(t, call(cancelled), what)
		require.Less(t, time.Since(begun), 2*time.Second, what)
		timer.Stop()
		cancel()
	}
}

// A connection that has died during a call frees its place in the pool at once, since all renewals
// wait for that place. pgx itself would try for 15 s to cancel the call.
func TestTrap_T12_DeadConnectionKeepsNoPlace(t *testing.T) {
	t.Parallel()
	server, err := url.Parse(withParameters(postgresURL(t), "schema", newSchema(t), "pool_max_conns", "1"))
	require.NoError(t, err)
	f := newStallingProxy(t, server.Host)
	server.Host = f.address
	p := openTest(t, server.String(), nil)
	defer f.hangUp()
	grant, err := p.Acquire(bounded(t), claimOf("n", time.Minute))
	require.NoError(t, err)
	f.silent.Store(true)
	short, cancel := context.WithTimeout(bounded(t), 200*time.Millisecond)
	defer cancel()
	_, err = p.Renew(short, renewalOf(grant))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	<-time.After(200 * time.Millisecond) // the cancellation is also lost
	f.silent.Store(false)
	soon, cancel := context.WithTimeout(bounded(t), 5*time.Second)
	defer cancel()
	_, err = p.Renew(soon, renewalOf(grant))
	require.NoError(t, err)
}
