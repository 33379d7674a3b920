package managertest_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// logged returns options with a logger for warnings, and a function that returns the logged lines.
func logged() (leasing.Options, func() []string) {
	out := new(lockedBuffer)
	return leasing.Options{Logger: slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: slog.LevelWarn}))}, func() []string {
		synctest.Wait()
		return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
	}
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// An acquire that starts while the backend is down waits, and reports its failed attempts.
func TestTrap_T82_FailedAttemptsOfAWaitingAcquireAreReported(t *testing.T) {
	options, lines := logged()
	measured(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
		var events journal
		defer m.Subscribe(events.observe)()
		remove := p.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, errNetwork))
		began := time.Now()
		acquired := make(chan *leasing.Lease)
		go func() {
			l, err := m.Acquire(context.Background(), name)
			require.NoError(t, err)
			acquired <- l
		}()
		time.Sleep(time.Millisecond)
		require.Len(t, lines(), 1)
		for _, want := range []string{"level=WARN", "an attempt to acquire failed", "name=" + name, "attempt=1", "connection reset"} {
			require.Contains(t, lines()[0], want)
		}
		first := events.ofKind(leasing.EventAcquireFailed)[0]
		require.Equal(t, 1, first.Attempt)
		require.True(t, first.WillRetry)
		require.ErrorIs(t, first.Err, leasing.ErrUnavailable)
		require.EqualValues(t, 1, r.sum("leasing.acquire.attempt.failure", "error.type=unavailable"))
		health := m.Health(t.Context())
		require.Equal(t, leasing.Degraded, health.Status, "the ping is answered")
		require.Equal(t, 1, health.Waiting)
		require.Equal(t, time.Millisecond, health.OldestWaiter)
		require.True(t, health.FailingSince.Equal(began))

		time.Sleep(10 * time.Minute)
		attempts := p.Count(leasingtest.Acquire)
		require.Greater(t, attempts, 500)
		failed := events.ofKind(leasing.EventAcquireFailed)
		require.Len(t, failed, attempts)
		for i, event := range failed {
			require.Equal(t, i+1, event.Attempt)
		}
		require.EqualValues(t, attempts, r.sum("leasing.acquire.attempt.failure", ""))
		require.Greater(t, len(lines()), 5)
		require.Less(t, len(lines()), 15, "the log is limited")
		require.Contains(t, lines()[1], "failures=")
		health = m.Health(t.Context())
		require.Equal(t, 10*time.Minute+time.Millisecond, health.OldestWaiter)
		require.True(t, health.FailingSince.Equal(began))

		remove()
		l := <-acquired
		health = m.Health(t.Context())
		require.Equal(t, leasing.Healthy, health.Status)
		require.True(t, health.FailingSince.IsZero())
		require.Zero(t, health.OldestWaiter)
		require.NoError(t, l.Release(t.Context()))
	})
}

// The answer that another holder has the name is not a failure.
func TestWaitingForAHolderIsNoFailure(t *testing.T) {
	options, lines := logged()
	measured(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
		l := acquire(t, m, nil)
		other := leasingtest.NewManagerOn(t, p, options)
		_, err := other.With(leasing.AcquireOptions{WaitLimit: time.Hour}).Acquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.NoError(t, l.Err())
		require.Equal(t, []string{""}, lines())
		require.Zero(t, r.sum("leasing.acquire.attempt.failure", ""))
		require.True(t, other.Health(t.Context()).FailingSince.IsZero())
	})
}

// A stall of eight seconds with 220 leases makes two log lines, not 1,896.
func TestAStallIsLoggedFirstLastAndWithACount(t *testing.T) {
	options, lines := logged()
	virtual(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var events journal
		defer m.Subscribe(events.observe)()
		for i := range 220 {
			l, err := m.With(leasing.AcquireOptions{RenewCadence: time.Second}).Acquire(t.Context(), fmt.Sprint("a/b/", i))
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Release(context.Background())) }()
		}
		time.Sleep(5 * time.Second)
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errNetwork))
		time.Sleep(8 * time.Second)
		p.Clear()
		time.Sleep(time.Minute)
		failures := len(events.ofKind(leasing.EventRenewalFailed))
		require.Greater(t, failures, 1000)
		require.Len(t, lines(), 2)
		require.Contains(t, lines()[0], "renewal_failed")
		require.NotContains(t, lines()[0], "failures=")
		require.Contains(t, lines()[1], fmt.Sprintf("failures=%d leases=220", failures-1))

		// The next stall is logged at once.
		p.Use(leasingtest.Fail(leasingtest.Renew, 1, errNetwork))
		time.Sleep(2 * time.Second)
		require.Len(t, lines(), 3)
	})
}

// Close logs the failures that were counted but not logged yet.
func TestCloseLogsWhatWasCounted(t *testing.T) {
	options, lines := logged()
	virtual(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errNetwork))
		for range 3 {
			require.Error(t, l.Renew(t.Context()))
			synctest.Wait()
		}
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, m.Close(t.Context()))
		require.Len(t, lines(), 2)
		require.Contains(t, lines()[1], "failures=2 leases=1")
	})
}

// After a quiet period the first failure is again logged at once.
func TestTheLogIsPromptAgainAfterALongOutage(t *testing.T) {
	options, lines := logged()
	virtual(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		for range 2 {
			before := len(lines())
			for range 600 {
				p.Use(leasingtest.Fail(leasingtest.Renew, 1, errNetwork))
				require.Error(t, l.Renew(t.Context()))
				time.Sleep(time.Second)
			}
			require.Greater(t, len(lines())-before, 10)
			require.Less(t, len(lines())-before, 15)
			time.Sleep(10 * time.Minute)
		}
		p.Use(leasingtest.Fail(leasingtest.Renew, 3, errNetwork))
		before := len(lines())
		for range 3 {
			require.Error(t, l.Renew(t.Context()))
			synctest.Wait()
		}
		require.Len(t, lines(), before+1)
		time.Sleep(10 * time.Second)
		require.Len(t, lines(), before+2)
	})
}

// A request that the caller's own context cuts short says nothing about the backend, and one failure does not degrade Health
// forever.
func TestHealthDoesNotBlameTheBackend(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Hang(leasingtest.Acquire, 1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.TryAcquire(ctx, name)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, leasing.Healthy, m.Health(t.Context()).Status)

		p.Use(leasingtest.Fail(leasingtest.Acquire, 1, errNetwork))
		_, err = m.TryAcquire(t.Context(), "a/b")
		require.Error(t, err)
		require.False(t, m.Health(t.Context()).FailingSince.IsZero())
		time.Sleep(time.Minute + 1)
		require.Equal(t, leasing.Healthy, m.Health(t.Context()).Status)
		require.True(t, m.Health(t.Context()).FailingSince.IsZero())
	})
}

// Health returns within its time limit even in a stall, and is degraded for a minute after a loss of leases.
func TestHealthInAStallAndAfterALoss(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Hang(leasingtest.Ping, 2))
		began := time.Now()
		require.Equal(t, leasing.Unhealthy, m.Health(t.Context()).Status)
		require.Equal(t, time.Second, time.Since(began))
		patient := leasingtest.NewManagerOn(t, p, leasing.Options{Tuning: leasing.Tuning{HealthTimeout: 3 * time.Second}})
		require.Equal(t, leasing.Unhealthy, patient.Health(t.Context()).Status)
		require.Equal(t, 4*time.Second, time.Since(began))

		for i := range 5 {
			l, err := m.Acquire(t.Context(), fmt.Sprint("a/b/", i))
			require.NoError(t, err)
			leasingtest.Lose(t, p, l, leasing.LostTaken)
		}
		lost := time.Now()
		time.Sleep(30 * time.Second)
		health := m.Health(t.Context())
		require.Equal(t, leasing.Degraded, health.Status)
		require.EqualValues(t, 5, health.Lost)
		require.True(t, health.LastLost.Equal(lost))
		time.Sleep(31 * time.Second)
		health = m.Health(t.Context())
		require.Equal(t, leasing.Healthy, health.Status)
		require.True(t, health.LastLost.Equal(lost))

		l := acquire(t, m, &leasing.AcquireOptions{MaxRenewals: 1, RenewCadence: time.Second})
		awaitEnd(t, l, time.Hour)
		requireLost(t, l, leasing.LostRenewalLimit)
		require.Equal(t, leasing.Healthy, m.Health(t.Context()).Status, "it was to end")
	})
}

// Health reports the longest wait of all waiters, whatever their places in the queue.
func TestHealthShowsTheOldestWaiter(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for range 2 {
			go func() { _, _ = m.With(leasing.AcquireOptions{WaitLimit: time.Minute}).Acquire(ctx, name) }()
			time.Sleep(time.Second)
		}
		time.Sleep(50 * time.Second)
		require.Equal(t, 52*time.Second, m.Health(t.Context()).OldestWaiter)
		time.Sleep(8500 * time.Millisecond) // the first waiter has given up, and the second has taken its place
		require.Equal(t, 59500*time.Millisecond, m.Health(t.Context()).OldestWaiter)
		require.NoError(t, l.Err())
	})
}
