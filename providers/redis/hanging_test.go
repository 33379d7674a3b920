package redislease

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"
)

// everyCall returns all calls of a provider.
func everyCall(p *Provider) map[string]func(ctx context.Context) error {
	req := claimOf("name")
	return map[string]func(ctx context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := p.Acquire(ctx, req); return err },
		"renew": func(ctx context.Context) error {
			_, err := p.Renew(ctx, abstractions.RenewRequest{Name: "name", ID: req.ID, Token: 1, TTL: time.Minute})
			return err
		},
		"renew many": func(ctx context.Context) error {
			one := abstractions.RenewRequest{Name: "name", ID: req.ID, Token: 1, TTL: time.Minute}
			results, err := p.RenewBatch(ctx, []abstractions.RenewRequest{one, one})
			if err == nil {
				err = results[1].Err
			}
			return err
		},
		"release": func(ctx context.Context) error {
			return p.Release(ctx, abstractions.ReleaseRequest{Name: "name", ID: req.ID})
		},
		"break": func(ctx context.Context) error {
			_, err := p.Break(ctx, abstractions.BreakRequest{Name: "name", Immediate: true})
			return err
		},
		"inspect": func(ctx context.Context) error {
			_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "name"})
			return err
		},
		"list": func(ctx context.Context) error { _, err := p.List(ctx, abstractions.ListRequest{}); return err },
		"wait": func(ctx context.Context) error {
			_, err := p.Wait(ctx, abstractions.WaitRequest{Name: "name", ID: req.ID})
			return err
		},
		"ping": p.Ping,
	}
}

// hanging is the time for which the clients here wait for a silent server; soon is a much
// shorter time.
const hanging, soon = 20 * time.Second, 3 * time.Second

// eachEnds checks that every call ends with its context, by a deadline or by a cancellation.
// A network connection has deadlines but no cancellation, so the test checks both.
func eachEnds(t *testing.T, p *Provider) {
	t.Helper()
	require.True(t, p.Capabilities().HeedsContext)
	const while = 150 * time.Millisecond
	for name, call := range everyCall(p) {
		late, stop := context.WithTimeout(t.Context(), while)
		cancelled, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(while, cancel)
		for kind, ctx := range map[string]context.Context{"deadline": late, "cancel": cancelled} {
			began := time.Now()
			err := call(ctx)
			require.Less(t, time.Since(began), soon, "%s: %s", name, kind)
			require.Error(t, err, "%s: %s", name, kind)
			require.NotErrorIs(t, err, abstractions.ErrThrottled, "%s: nobody has said so", name)
			require.NotErrorIs(t, err, abstractions.ErrLost, name)
		}
		timer.Stop()
		cancel()
		stop()
	}
}

// T42: a call ends with its context although the server is frozen and the
// application's own client ignores deadlines.
func TestTrap_T42_CallsEndWithTheirContextOnAFrozenServer(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	t.Run("a user's client", func(t *testing.T) {
		client := closed(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: hanging}))
		testFrozenServer(t, openTest(t, Options{Client: client}), server)
	})
	t.Run("a user's client that obeys contexts", func(t *testing.T) {
		client := closed(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: hanging, ContextTimeoutEnabled: true, MaxRetries: -1, DialerRetries: 1}))
		testFrozenServer(t, openTest(t, Options{Client: client, HeedsContext: true}), server)
	})
	t.Run("our client", func(t *testing.T) {
		testFrozenServer(t, openTest(t, Options{URL: server.URL() + "?read_timeout=20s"}), server)
	})
}

// testFrozenServer freezes a server that was in use, makes every call, and uses the server again after it resumes.
func testFrozenServer(t *testing.T, p *Provider, server *redistest.Server) {
	waitUntilFast(t, p)
	server.Pause()
	eachEnds(t, p)
	server.Resume()
	requireWorking(t, p)
}

// A call ends with its context even if the application's code ignores contexts. Any client
// may run such code, as a hook or as the credentials of a new connection.
func TestTrap_T42_CallsEndWithTheirContextWhateverTheUsersCodeDoes(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	t.Run("a hook", func(t *testing.T) {
		gate := make(chan struct{})
		client := closed(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true}))
		p := openTest(t, Options{Client: client})
		waitUntilFast(t, p)
		client.AddHook(redistest.Around((&recorder{before: func([]redis.Cmder) { blockOn(gate) }}).around))
		eachEnds(t, p)
		close(gate)
		requireWorking(t, p)
	})
	t.Run("credentials", func(t *testing.T) {
		gate := make(chan struct{})
		p := openTest(t, Options{URL: server.URL(), Credentials: slowCredentials{gate}})
		eachEnds(t, p)
		close(gate)
	})
}

// waitUntilFast waits until the server answers so fast that a lone call may be sent on its caller's goroutine.
func waitUntilFast(t *testing.T, p *Provider) {
	t.Helper()
	require.Eventually(t, func() bool {
		began := time.Now()
		requireWorking(t, p)
		return time.Since(began) < 5*time.Millisecond
	}, time.Minute, time.Millisecond)
}

// A lone call is sent on its caller's goroutine if all code that runs there returns when the call's context ends.
func TestHeedsContextLetsCallersSendThemselves(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t, redistest.Options{})
	goroutine := func() string {
		var text [64]byte
		return strings.Fields(string(text[:runtime.Stack(text[:], false)]))[1]
	}
	for _, timeoutEnabled := range []bool{false, true} {
		client := closed(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ContextTimeoutEnabled: true}))
		p := openTest(t, Options{Client: client, HeedsContext: timeoutEnabled})
		var sender atomic.Pointer[string]
		client.AddHook(redistest.Around((&recorder{before: func([]redis.Cmder) { id := goroutine(); sender.Store(&id) }}).around))
		directly := func() bool {
			requireWorking(t, p)
			return *sender.Load() == goroutine()
		}
		if timeoutEnabled {
			require.Eventually(t, func() bool { return directly() }, time.Minute, time.Millisecond, "a slow server is asked by others")
			continue
		}
		for range 10 {
			require.False(t, directly())
		}
	}
}

// blockOn blocks until the gate is closed, or for so long that the test has failed.
func blockOn(gate <-chan struct{}) {
	timer := time.NewTimer(hanging)
	defer timer.Stop()
	select {
	case <-gate:
	case <-timer.C:
	}
}

// slowCredentials return once the gate is closed.
type slowCredentials struct{ gate chan struct{} }

func (c slowCredentials) Subscribe(auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	blockOn(c.gate)
	return nil, nil, errors.New("no credentials")
}

func TestTrap_T42_CallsEndWithTheirContextOnAFrozenRedlock(t *testing.T) {
	t.Parallel()
	servers := redistest.StartMany(t, 3, redistest.Options{})
	own := openTest(t, Options{URL: redlockURL(servers) + "&read_timeout=20s"})
	clients := make([]redis.UniversalClient, len(servers))
	for i, server := range servers {
		clients[i] = closed(t, redis.NewClient(&redis.Options{Addr: server.Addr(), ReadTimeout: hanging}))
	}
	users := openTest(t, Options{Clients: clients})
	require.NoError(t, own.Bootstrap(t.Context()))
	requireWorking(t, own)
	requireWorking(t, users)
	for _, server := range servers {
		server.Pause()
	}
	eachEnds(t, own)
	eachEnds(t, users)
	for _, server := range servers {
		server.Resume()
	}
	requireWorking(t, own)
	requireWorking(t, users)
}

func TestTrap_T42_CallsEndWithTheirContextOnAFrozenCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	p := openTest(t, Options{URL: clusterURL(cluster) + "&read_timeout=20s"})
	requireWorking(t, p)
	for _, server := range cluster.Servers {
		server.Pause()
	}
	eachEnds(t, p)
	for _, server := range cluster.Servers {
		server.Resume()
	}
	cluster.Ready()
	requireWorking(t, p)
}

// The first call to a Cluster, which requests the slots, also ends with its context.
func TestTrap_T42_FirstCallsEndWithTheirContextOnAFrozenCluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	client := closed(t, redis.NewClusterClient(&redis.ClusterOptions{Addrs: cluster.Addrs(), ReadTimeout: hanging}))
	p := openTest(t, Options{Client: client})
	for _, server := range cluster.Servers {
		server.Pause()
	}
	eachEnds(t, p)
	for _, server := range cluster.Servers {
		server.Resume()
	}
	cluster.Ready()
	requireWorking(t, p)
}

// A frozen master of a Cluster delays only its own names.
func TestFrozenMasterOfAClusterHoldsUpItsOwnNamesOnly(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	p := openTest(t, Options{URL: clusterURL(cluster)})
	requireWorking(t, p)
	client := cluster.Client(t)
	names := map[string]string{} // by the master that has them
	for _, name := range someNames("name/", 60) {
		master, err := client.MasterForKey(t.Context(), keysOf(name).Name)
		require.NoError(t, err)
		names[master.Options().Addr] = name
	}
	require.Len(t, names, 3)
	cluster.Servers[1].Pause()
	for addr, name := range names {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		_, err := p.Acquire(ctx, claimOf(name))
		cancel()
		if addr == cluster.Servers[1].Addr() {
			require.ErrorIs(t, err, abstractions.ErrUnavailable)
			continue
		}
		require.NoError(t, err, addr)
	}
	cluster.Servers[1].Resume()
	cluster.Ready()
}
