package managertest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// A wait survives refusals that last only for seconds, such as those while a password is rotated.
func TestTrap_T187_ARefusalThatPassesEndsNoWait(t *testing.T) {
	options, lines := logged()
	options.RefusalTimeout = 7 * time.Second
	measured(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
		var events journal
		defer m.Subscribe(events.observe)()
		p.Use(leasingtest.Fail(leasingtest.Acquire, 1, errNetwork)) // so that a failure has been logged
		began := time.Now()
		time.AfterFunc(time.Millisecond, func() { p.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrDenied)) })
		time.AfterFunc(4*time.Second, p.Clear)
		time.AfterFunc(2*time.Second, func() {
			health := m.Health(t.Context())
			require.Equal(t, leasing.Degraded, health.Status, "the ping is answered, and the requests are refused")
			require.False(t, health.FailingSince.IsZero())
		})
		l := acquire(t, m, nil)
		require.Less(t, time.Since(began), 6*time.Second)
		require.Greater(t, r.sum("leasing.acquire.attempt.failure", "error.type=denied"), float64(2))
		failed := events.ofKind(leasing.EventAcquireFailed)
		require.ErrorIs(t, failed[1].Err, leasing.ErrDenied)
		require.True(t, failed[1].WillRetry)
		require.Contains(t, lines()[1], "was refused: check the credentials", "logged at once, although another failure was")
		require.Equal(t, leasing.Healthy, m.Health(t.Context()).Status)
		require.NoError(t, l.Release(t.Context()))
	})
}

func TestTrap_T187_ALastingRefusalEndsTheWait(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrDenied))
		began := time.Now()
		second := make(chan error, 1)
		time.AfterFunc(30*time.Second, func() {
			go func() {
				_, err := m.Acquire(context.Background(), name)
				second <- err
			}()
		})
		_, err := m.Acquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrDenied)
		require.ErrorContains(t, err, "no other answer for 1m0s")
		require.InDelta(t, 61, time.Since(began).Seconds(), 1.1)
		require.ErrorIs(t, <-second, leasing.ErrDenied, "a waiter behind it shares its minute")
		require.Less(t, time.Since(began), 65*time.Second)
		require.Zero(t, p.Count(leasingtest.Release), "nothing to clean up")

		// The minute restarts after an answer that shows a holder, but not after an outage.
		p.Clear()
		other := leasingtest.NewManagerOn(t, p, leasing.Options{})
		l := acquire(t, other, nil)
		deny := p.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrDenied))
		began = time.Now()
		time.AfterFunc(50*time.Second, func() {
			deny()
			time.AfterFunc(2*time.Second, func() {
				p.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrDenied))
			})
		})
		_, err = m.Acquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrDenied)
		require.InDelta(t, 117, time.Since(began).Seconds(), 6, "a minute since the holder was seen last")
		require.NoError(t, l.Err())
	})
}

// The refusals before and after the first waiter's grant together last longer than RefusalTimeout. The grant in between is an
// answer, so the second waiter goes on waiting.
func TestTrap_T301_AGrantIsAnAnswerBetweenRefusals(t *testing.T) {
	virtual(t, leasing.Options{RefusalTimeout: 7 * time.Second}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		deny := func() { p.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrDenied)) }
		deny()
		time.AfterFunc(5*time.Second, p.Clear)
		second := make(chan *leasing.Lease, 1)
		time.AfterFunc(time.Second, func() {
			go func() {
				l, err := m.Acquire(context.Background(), name)
				require.NoError(t, err)
				second <- l
			}()
		})
		first := acquire(t, m, nil)
		deny()
		time.AfterFunc(6*time.Second, p.Clear)
		time.Sleep(3 * time.Second)
		require.NoError(t, first.Release(t.Context()))
		require.NoError(t, (<-second).Release(t.Context()))
	})
}

func TestARefusalAnswersTryAcquireAtOnce(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, leasing.ErrDenied))
		_, err := m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrDenied)
		require.Equal(t, 1, p.Count(leasingtest.Acquire))
		_, err = m.With(leasing.AcquireOptions{WaitLimit: 5 * time.Second}).Acquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrDenied, "what the backend says, and not that time is up")
	})
	_, err := leasing.NewManager(leasingtest.NewProvider(), leasing.Options{RefusalTimeout: -1})
	requireInvalid(t, err, "Options.RefusalTimeout")
}

// A denied release is retried, so the name is freed soon after the rotated credentials work, and not only a TTL later.
func TestTrap_T188_ADeniedReleaseIsRetriedInTheBackground(t *testing.T) {
	virtual(t, leasing.Options{TTL: time.Minute}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, leasing.ErrDenied))
		began := time.Now()
		require.ErrorIs(t, l.Release(t.Context()), leasing.ErrDenied)
		require.Zero(t, time.Since(began), "its caller gets the refusal at once")
		time.Sleep(4 * time.Second)
		p.Clear()
		time.Sleep(2 * time.Second)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held)
		require.NoError(t, m.Close(t.Context()))
	})
}

func TestTrap_T188_ADeniedReleaseOfAnInfiniteLeaseIsNotGivenUp(t *testing.T) {
	options, lines := logged()
	virtual(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{TTL: leasing.Infinite})
		time.Sleep(time.Second)
		require.Equal(t, leasing.Infinite, l.TTL())
		p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, leasing.ErrDenied))
		require.ErrorIs(t, l.Release(t.Context()), leasing.ErrDenied)
		time.Sleep(time.Hour)
		sent := p.Count(leasingtest.Release)
		require.Greater(t, sent, 50)
		require.Less(t, sent, 200)
		require.Greater(t, len(lines()), 4)
		require.Less(t, len(lines()), 12)
		require.Contains(t, lines()[2], "an infinite lease is not released yet")
		p.Clear()
		time.Sleep(time.Minute + time.Second)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

// Close does not wait for new credentials, and reports the claims that are left.
func TestCloseReportsADeniedRelease(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, leasing.ErrDenied))
		require.ErrorIs(t, l.Release(t.Context()), leasing.ErrDenied)
		began := time.Now()
		err := m.Close(t.Context())
		require.Less(t, time.Since(began), time.Second)
		var left *leasing.CloseError
		require.ErrorAs(t, err, &left)
		require.Equal(t, 1, left.Unreleased)
		require.ErrorIs(t, err, leasing.ErrDenied)
	})
}
