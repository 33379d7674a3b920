package redislease

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// endpoint is an address behind which the server may change, like that of a cloud service or a Kubernetes Service. A connection
// stays with its server.
type endpoint struct {
	net.Listener
	to     atomic.Pointer[string]
	dialed atomic.Int64

	mu    sync.Mutex
	pipes []*pipe
}

// pipe is a connection through an endpoint.
type pipe struct {
	client, server net.Conn
	lost           atomic.Bool  // drops the bytes that are sent
	used           atomic.Int64 // the time of the latest bytes, in nanoseconds of the Unix epoch
}

func newEndpoint(t *testing.T, addr string) *endpoint {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &endpoint{Listener: l}
	e.to.Store(&addr)
	var all sync.WaitGroup
	all.Go(func() { e.serve(&all) })
	t.Cleanup(func() {
		_ = l.Close()
		e.each(func(p *pipe) { _, _ = p.client.Close(), p.server.Close() })
		all.Wait()
	})
	return e
}

func (e *endpoint) serve(all *sync.WaitGroup) {
	for {
		client, err := e.Accept()
		if err != nil {
			return
		}
		server, err := (&net.Dialer{}).DialContext(context.Background(), "tcp", *e.to.Load())
		if err != nil {
			_ = client.Close()
			continue
		}
		e.dialed.Add(1)
		p := &pipe{client: client, server: server}
		e.mu.Lock()
		e.pipes = append(e.pipes, p)
		e.mu.Unlock()
		all.Go(func() { p.copy(client, server) })
		all.Go(func() { p.copy(server, client) })
	}
}

func (p *pipe) copy(from, to net.Conn) {
	buffer := make([]byte, 1<<16)
	for {
		n, err := from.Read(buffer)
		p.used.Store(time.Now().UnixNano())
		if p.lost.Load() {
			if err != nil {
				return
			}
			continue
		}
		if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
			_, _ = from.Close(), to.Close()
			return
		}
	}
}

func (e *endpoint) each(do func(p *pipe)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, p := range e.pipes {
		do(p)
	}
}

// lose drops all further bytes of the existing connections, like a gateway that has forgotten its connections.
func (e *endpoint) lose() { e.each(func(p *pipe) { p.lost.Store(true) }) }

func (e *endpoint) addr() string { return e.Addr().String() }

// openClient returns a client of the application with some idle connections in its pool.
func (e *endpoint) openClient(t *testing.T, o redis.Options, idle int) *redis.Client {
	t.Helper()
	o.Addr, o.MaxRetries, o.DialerRetries = e.addr(), -1, 1
	client := closed(t, redis.NewClient(&o))
	conns := make([]*redis.Conn, idle)
	for i := range conns {
		conns[i] = client.Conn()
		require.NoError(t, conns[i].Ping(t.Context()).Err())
	}
	for _, conn := range conns {
		require.NoError(t, conn.Close())
	}
	require.EqualValues(t, idle, client.PoolStats().IdleConns)
	return client
}

// T170: if the server behind an endpoint becomes unusable but stays alive, a refusal makes the provider close its
// connections. Otherwise the client would stay with that server forever.
func TestTrap_T170_AServerThatCantBeUsedIsLeft(t *testing.T) {
	t.Parallel()
	for code, break_ := range map[string]func(t *testing.T, old *redistest.Server, admin *redis.Client, next *redistest.Server){
		"READONLY": func(t *testing.T, _ *redistest.Server, admin *redis.Client, next *redistest.Server) {
			host, port, _ := net.SplitHostPort(next.Addr())
			require.NoError(t, admin.Do(t.Context(), "REPLICAOF", host, port).Err())
		},
		"MASTERDOWN": func(t *testing.T, _ *redistest.Server, admin *redis.Client, _ *redistest.Server) {
			require.NoError(t, admin.ConfigSet(t.Context(), "replica-serve-stale-data", "no").Err())
			require.NoError(t, admin.Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err())
		},
		"NOREPLICAS": func(t *testing.T, _ *redistest.Server, admin *redis.Client, _ *redistest.Server) {
			require.NoError(t, admin.ConfigSet(t.Context(), "min-replicas-to-write", "1").Err())
		},
		"MISCONF": func(t *testing.T, old *redistest.Server, admin *redis.Client, _ *redistest.Server) {
			require.NoError(t, admin.ConfigSet(t.Context(), "save", "3600 1").Err())
			require.NoError(t, os.RemoveAll(old.Dir))
			require.NoError(t, admin.BgSave(t.Context()).Err())
			require.Eventually(t, func() bool { return admin.Set(t.Context(), "other", "", 0).Err() != nil }, time.Minute, time.Millisecond)
		},
	} {
		for kind, open := range map[string]func(t *testing.T, e *endpoint) *Provider{
			"URL": func(t *testing.T, e *endpoint) *Provider { return openTest(t, Options{URL: "redis://" + e.addr()}) },
			"users": func(t *testing.T, e *endpoint) *Provider {
				return openTest(t, Options{Client: e.openClient(t, redis.Options{ContextTimeoutEnabled: true}, 5)})
			},
			"users that ignore contexts": func(t *testing.T, e *endpoint) *Provider {
				return openTest(t, Options{Client: e.openClient(t, redis.Options{PoolFIFO: true}, 5)})
			},
		} {
			t.Run(code+" "+kind, func(t *testing.T) {
				t.Parallel()
				old, next := redistest.Start(t, redistest.Options{}), redistest.Start(t, redistest.Options{})
				e := newEndpoint(t, old.Addr())
				p := open(t, e)
				requireWorking(t, p)
				break_(t, old, old.Client(t), next)
				for range 2 { // before the endpoint moves
					_, err := p.Acquire(t.Context(), claimOf("name"))
					require.ErrorIs(t, err, abstractions.ErrThrottled)
					require.ErrorContains(t, err, code)
					require.NotContains(t, err.Error(), "user_script")
				}
				addr := next.Addr()
				e.to.Store(&addr)
				_, err := p.Acquire(t.Context(), claimOf("name"))
				if err != nil { // on a connection from before the move
					require.ErrorContains(t, err, code)
					_, err = p.Acquire(t.Context(), claimOf("name"))
				}
				require.NoError(t, err, "the second attempt")
			})
		}
	}
}

// T173: a gateway forgets idle connections, and notifies neither end. A request does not wait on such a connection until its
// deadline: the request would fail, and a release that fails leaves the name held.
func TestTrap_T173_AnIdleConnectionThatIsLostCostsLittle(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(t *testing.T, e *endpoint) *Provider{
		"URL": func(t *testing.T, e *endpoint) *Provider { return openTest(t, Options{URL: "redis://" + e.addr()}) },
		"users": func(t *testing.T, e *endpoint) *Provider {
			return openTest(t, Options{Client: e.openClient(t, redis.Options{ContextTimeoutEnabled: true}, 5)})
		},
		"users that ignore contexts": func(t *testing.T, e *endpoint) *Provider {
			return openTest(t, Options{Client: e.openClient(t, redis.Options{PoolFIFO: true}, 5)})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			e := newEndpoint(t, server.Addr())
			p, admin := open(t, e), server.Client(t)
			const bound = 4 * time.Second
			for range 3 {
				req, began := claimOf("name"), time.Now()
				for what, request := range []func(ctx context.Context) error{
					func(ctx context.Context) error { return second(p.Acquire(ctx, req)) },
					func(ctx context.Context) error {
						return p.Release(ctx, abstractions.ReleaseRequest{Name: req.Name, ID: req.ID})
					},
				} {
					waitUntilIdle(t, admin)
					e.lose()
					ctx, cancel := context.WithTimeout(t.Context(), bound)
					require.NoError(t, request(ctx), "%d after %v", what, time.Since(began))
					cancel()
				}
				require.Zero(t, admin.Exists(t.Context(), keysOf("name").Queue).Val())
			}
		})
	}
}

// T300: go-redis has a second pool for pipelines, and a gateway forgets its connections. Requests of several calls that are sent
// together must not wait on such a connection until their deadline.
func TestTrap_T300_PipelinesMeetConnectionsThatAreLost(t *testing.T) {
	t.Parallel()
	for kind, open := range map[string]func(t *testing.T, e *endpoint) *Provider{
		"URL": func(t *testing.T, e *endpoint) *Provider { return openTest(t, Options{URL: "redis://" + e.addr()}) },
		"users": func(t *testing.T, e *endpoint) *Provider {
			return openTest(t, Options{Client: e.openClient(t, redis.Options{ContextTimeoutEnabled: true}, 5)})
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, redistest.Options{})
			e := newEndpoint(t, server.Addr())
			p, admin := open(t, e), server.Client(t)
			burst := func() error {
				errs, all := make([]error, 16), sync.WaitGroup{}
				for i := range errs {
					all.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second)
						defer cancel()
						req := claimOf(abstractions.NewID())
						req.TTL += time.Duration(i) * time.Second // so that each request has a call of its own
						errs[i] = second(p.Acquire(ctx, req))
					})
				}
				all.Wait()
				return errors.Join(errs...)
			}
			require.NoError(t, burst())
			for range 3 {
				waitUntilIdle(t, admin)
				e.lose()
				require.NoError(t, burst())
			}
		})
	}
}

// T262: one connection is in use all the time, and a gateway has forgotten the others. In a burst, each request succeeds at its
// second attempt at the latest.
func TestTrap_T262_ABurstMeetsIdleConnectionsThatAreLost(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	e := newEndpoint(t, server.Addr())
	p := openTest(t, Options{Client: e.openClient(t, redis.Options{ContextTimeoutEnabled: true}, 12)})
	attempt := func() error {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		return second(p.Acquire(ctx, claimOf(abstractions.NewID())))
	}
	burst := func() error {
		errs, all := make([]error, 16), sync.WaitGroup{}
		for i := range errs {
			all.Go(func() {
				if attempt() != nil {
					errs[i] = attempt()
				}
			})
		}
		all.Wait()
		return errors.Join(errs...)
	}
	require.NoError(t, burst())
	lost := 0
	for range 3 {
		for begin := time.Now(); time.Since(begin) < 2*time.Second; {
			require.NoError(t, attempt())
			<-time.After(20 * time.Millisecond)
			e.each(func(pipe *pipe) {
				if time.Since(time.Unix(0, pipe.used.Load())) > 1500*time.Millisecond && !pipe.lost.Swap(true) {
					lost++
				}
			})
		}
		require.NoError(t, burst())
	}
	require.Positive(t, lost)
}

// waitUntilIdle waits until the server has had no request for over a second, except the CLIENT LIST that checks for this state.
func waitUntilIdle(t *testing.T, admin *redis.Client) {
	t.Helper()
	require.Eventually(t, func() bool {
		list, err := admin.ClientList(t.Context()).Result()
		require.NoError(t, err)
		return strings.Count(list, " idle=0 ") == 1 && !strings.Contains(list, " idle=1 ") // the client of this CLIENT LIST
	}, time.Minute, 50*time.Millisecond)
}

// T172: a request that a server of a Cluster redirects fails with ErrNotSetUp if the client follows no redirections.
func TestTrap_T172_AClusterWithoutItsModeIsNotSetUp(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	users := closed(t, redis.NewClient(&redis.Options{Addr: cluster.Servers[1].Addr()}))
	for _, o := range []Options{{URL: cluster.Servers[0].URL()}, {Client: users}, {URL: redlockURL(cluster.Servers)}} {
		p := openTest(t, o)
		answers := map[bool]int{}
		for _, name := range someNames("name/", 60) {
			_, err := p.Acquire(t.Context(), claimOf(name))
			answers[err == nil]++
			if err != nil {
				require.ErrorIs(t, err, abstractions.ErrNotSetUp)
				require.ErrorContains(t, err, "mode=cluster")
				require.True(t, abstractions.NotApplied(err))
			}
		}
		require.NotZero(t, answers[false])
		if o.Mode != Redlock && o.URL != redlockURL(cluster.Servers) {
			require.NotZero(t, answers[true], "names of its own slots")
		}
		reqs := make([]abstractions.RenewRequest, 20)
		for i := range reqs {
			reqs[i] = abstractions.RenewRequest{Name: someNames("name/", 60)[i], ID: "x", Token: 1, TTL: time.Minute}
		}
		results, err := p.RenewBatch(t.Context(), reqs)
		require.NoError(t, err)
		require.ErrorIs(t, results[0].Err, abstractions.ErrNotSetUp, "CROSSSLOT")
		require.ErrorContains(t, results[0].Err, "mode=cluster")
	}
	requireWorking(t, openTest(t, Options{URL: clusterURL(cluster)}))
}
