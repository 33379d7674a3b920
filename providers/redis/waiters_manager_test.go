package redislease

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func managerOf(t testing.TB, p abstractions.Provider, o leasing.Options) *leasing.Manager {
	t.Helper()
	m, err := leasing.NewManager(p, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		_ = m.Close(ctx)
	})
	return m
}

// serviceLog records the order in which waiters are served, and checks that there is one holder at a time.
type serviceLog struct {
	t      *testing.T
	inside sync.Mutex

	mu     sync.Mutex
	served []string
	tokens []int64
}

func (r *serviceLog) serve(m *leasing.Manager, who string) {
	ctx, cancel := context.WithTimeout(r.t.Context(), 2*time.Minute)
	defer cancel()
	lease, err := m.Acquire(ctx, "n")
	if !assert.NoError(r.t, err, who) {
		return
	}
	assert.True(r.t, r.inside.TryLock(), "two holders")
	r.mu.Lock()
	r.served, r.tokens = append(r.served, who), append(r.tokens, lease.Token())
	r.mu.Unlock()
	r.inside.Unlock()
	assert.NoError(r.t, lease.Release(ctx))
}

func (r *serviceLog) requireRising() {
	r.t.Helper()
	for i := 1; i < len(r.tokens); i++ {
		require.Greater(r.t, r.tokens[i], r.tokens[i-1])
	}
}

func TestAHundredWaitersOfAManagerAreServedOnceAndInOrder(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	m := managerOf(t, b, leasing.Options{})
	b.Take("n", "holder", time.Minute)
	r := &serviceLog{t: t}
	var all sync.WaitGroup
	var want []string
	for n := range 100 {
		who := fmt.Sprint("w", n)
		want = append(want, who)
		all.Go(func() { r.serve(m, who) })
		b.eventually(func() bool { return m.Health(t.Context()).Waiting == n+1 })
	}
	b.eventually(func() bool { return len(b.waitList("n")) == 1 })
	b.release("n", "holder")
	all.Wait()
	require.Equal(t, want, r.served)
	r.requireRising()
	b.eventually(func() bool { return !b.exists(b.keys("n").Queue) })
}

func TestManagersOfManyProcessesAllGetTheirTurn(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "holder", time.Minute)
	r := &serviceLog{t: t}
	var all sync.WaitGroup
	const processes, managers, waiters = 4, 2, 5
	for p := range processes {
		process, _ := b.process()
		for range managers { // on one provider
			m := managerOf(t, process, leasing.Options{})
			for n := range waiters {
				all.Go(func() { r.serve(m, fmt.Sprint(p, "/", n)) })
			}
		}
	}
	b.eventually(func() bool { return len(b.waitList("n")) == processes*managers })
	b.release("n", "holder")
	all.Wait()
	require.Len(t, r.served, processes*managers*waiters)
	r.requireRising()
	b.eventually(func() bool { return !b.exists(b.keys("n").Queue) })
}

func TestManagersPollWhereTheyMayNotListen(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{Users: []string{
		"app on >secret " + ACLRules + " -subscribe", "default on nopass ~* &* +@all",
	}})
	p := openTest(t, Options{URL: appURL(b.server)})
	_, err := p.Wait(t.Context(), abstractions.WaitRequest{Name: "n", ID: "a"})
	require.ErrorIs(t, err, abstractions.ErrDenied)
	_, err = p.Wait(t.Context(), abstractions.WaitRequest{Name: "n", ID: "a"})
	require.ErrorIs(t, err, abstractions.ErrDenied)

	m := managerOf(t, p, leasing.Options{})
	b.Take("n", "holder", time.Minute)
	r := &serviceLog{t: t}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() { r.serve(m, "w") })
	}
	b.eventually(func() bool { return m.Health(t.Context()).Waiting == 3 })
	b.release("n", "holder")
	all.Wait()
	require.Len(t, r.served, 3)
	require.False(t, b.exists(b.keys("n").Queue))
}

func TestCloseWithWaitersLeavesNothingBehind(t *testing.T) {
	b := newBed(t, redistest.Options{})
	before := goleak.IgnoreCurrent()
	client, _ := recordedClient(t, b.server)
	p, err := Open(t.Context(), Options{Client: client})
	require.NoError(t, err)
	b.Take("n", "holder", time.Minute)
	var claims []*waitingClaim
	for n := range 10 {
		claims = append(claims, b.join(p, "n", fmt.Sprint("w", n)))
	}
	claims[3].leave()
	require.NoError(t, p.Close())
	for _, s := range claims {
		s.leave()
		_, err := s.ask()
		require.ErrorIs(t, err, abstractions.ErrClosed)
	}
	_, err = p.Wait(t.Context(), abstractions.WaitRequest{Name: "n", ID: "late"})
	require.ErrorIs(t, err, abstractions.ErrClosed)
	require.NoError(t, p.Close())
	require.NoError(t, client.Close())
	goleak.VerifyNone(t, before)

	s := b.join(b.Provider, "n", "alive")
	b.release("n", "holder")
	require.Equal(t, "alive", b.reservedFor("n"), "nobody listens for the others")
	s.acquireServed()
}

// T174: if an account has no permission to subscribe, or a server has no SUBSCRIBE, a waiter gets a released name after a
// second instead of a millisecond. The log names the reason, once.
func TestTrap_T174_WakeupsThatFailAreReportedOnce(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]redistest.Options{
		"NOPERM":          userWith(strings.Replace(ACLRules, "&leasing:wake:*", "", 1)),
		"unknown command": {Users: []string{"app on >secret ~* &* +@all"}, Args: []string{"--rename-command", "SUBSCRIBE", ""}},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, o)
			var log logBuffer
			holder := managerOf(t, openTest(t, Options{URL: asUser(server)}), leasing.Options{})
			waiter := managerOf(t, openTest(t, Options{URL: asUser(server)}), leasing.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
			for n := range 3 {
				lease, err := holder.TryAcquire(t.Context(), "n")
				require.NoError(t, err)
				done := make(chan error, 1)
				go func() {
					lease, err := waiter.Acquire(t.Context(), "n")
					if err == nil {
						err = lease.Release(t.Context())
					}
					done <- err
				}()
				require.Eventually(t, func() bool {
					return strings.Contains(log.String(), "waiters are not woken") && waiter.Health(t.Context()).Waiting == 1
				}, time.Minute, time.Millisecond, "%d", n)
				require.NoError(t, lease.Release(t.Context()))
				require.NoError(t, <-done)
			}
			require.Equal(t, 1, strings.Count(log.String(), "waiters are not woken"), log.String())
			require.Contains(t, log.String(), what)
		})
	}
}

// logBuffer is a log.
type logBuffer struct {
	mu  sync.Mutex
	all strings.Builder
}

func (l *logBuffer) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.Write(line)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.all.String()
}
