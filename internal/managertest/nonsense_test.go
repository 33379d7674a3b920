package managertest_test

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// The tests in this file use providers, options and observers that make no sense.

func TestTrap_T66_ErrorOfAWholeBatchIsNoLoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		m := leasingtest.NewManagerOn(t, failedBatches{p}, leasing.Options{})
		var leases []*leasing.Lease
		for _, n := range []string{"a", "b", "c"} {
			l, err := m.With(leasing.AcquireOptions{RenewCadence: 10 * time.Second}).Acquire(t.Context(), n)
			require.NoError(t, err)
			leases = append(leases, l)
		}
		time.Sleep(20 * time.Second)
		for _, l := range leases {
			require.NoError(t, l.Err(), l.Name())
			_ = l.Release(context.Background())
		}
	})
}

type failedBatches struct{ *leasingtest.Provider }

func (b failedBatches) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	return nil, errors.Join(&leasing.LostError{Reason: leasing.LostTaken}, errNetwork) // reports a lost lease in the batch, but not which of them
}

func TestWaitLimitMayBeHuge(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l, err := m.With(leasing.AcquireOptions{WaitLimit: math.MaxInt64}).Acquire(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
	})
}

func TestPollBoundsMayBeHuge(t *testing.T) {
	for _, o := range []leasing.Options{{Tuning: leasing.Tuning{MaxPoll: math.MaxInt64}}, {Tuning: leasing.Tuning{MinPoll: 48 * time.Hour}}} {
		virtual(t, o, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			other := leasingtest.NewManagerOn(t, p, leasing.Options{})
			held, err := other.With(leasing.AcquireOptions{TTL: 10000 * time.Hour}).Acquire(t.Context(), name)
			require.NoError(t, err)
			defer func() { _ = held.Release(context.Background()) }()
			require.NotPanics(t, func() {
				_, err := m.With(leasing.AcquireOptions{WaitLimit: 1000 * time.Hour}).Acquire(t.Context(), name)
				require.ErrorIs(t, err, leasing.ErrHeld)
			})
		})
	}
}

type endlessHolder struct{ *leasingtest.Provider }

func (f endlessHolder) As(any) bool { return false }

func (f endlessHolder) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	g, err := f.Provider.Acquire(ctx, req)
	if held := (*leasing.HeldError)(nil); errors.As(err, &held) {
		held.Holder.ExpiresAt = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC)
	}
	return g, err
}

func TestHolderWithoutEndIsNotAskedForInALoop(t *testing.T) {
	p := leasingtest.NewProvider() // real time: in virtual time a busy loop would never end
	m := leasingtest.NewManagerOn(t, endlessHolder{p}, leasing.Options{})
	other := leasingtest.NewManagerOn(t, p, leasing.Options{})
	held, err := other.With(leasing.AcquireOptions{TTL: time.Hour}).Acquire(t.Context(), name)
	require.NoError(t, err)
	defer func() { _ = held.Release(context.Background()) }()
	_, err = m.With(leasing.AcquireOptions{WaitLimit: 300 * time.Millisecond}).Acquire(t.Context(), name)
	require.ErrorIs(t, err, leasing.ErrHeld)
	require.Less(t, p.Count(leasingtest.Acquire), 100)
}

func TestTrap_T32_HungRegistrationDoesNotStopThePolling(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Hang(leasingtest.Wait, leasingtest.Always))
		other := leasingtest.NewManagerOn(t, p, leasing.Options{})
		held, err := other.Acquire(t.Context(), name)
		require.NoError(t, err)
		time.AfterFunc(500*time.Millisecond, func() { _ = held.Release(context.Background()) })
		start := time.Now()
		l, err := m.Acquire(t.Context(), name)
		require.NoError(t, err)
		defer func() { _ = l.Release(context.Background()) }()
		require.LessOrEqual(t, time.Since(start), 3*time.Second, "MaxPoll is 1 s")
	})
}

// takeover returns how long a waiter on p waits for a name that another manager releases after the time free.
func takeover(t *testing.T, p leasing.Provider, backend *leasingtest.Provider, maxPoll, free time.Duration) time.Duration {
	t.Helper()
	m := leasingtest.NewManagerOn(t, p, leasing.Options{Tuning: leasing.Tuning{MaxPoll: maxPoll}})
	held := acquire(t, leasingtest.NewManagerOn(t, backend, leasing.Options{}), nil)
	time.AfterFunc(free, func() { _ = held.Release(context.Background()) })
	start := time.Now()
	l, err := m.With(leasing.AcquireOptions{WaitLimit: time.Hour}).Acquire(t.Context(), name)
	require.NoError(t, err)
	took := time.Since(start)
	require.NoError(t, l.Release(t.Context()))
	return took
}

// hungWaiter does not return from Wait, even if the context has ended.
type hungWaiter struct {
	*leasingtest.Provider
	release chan struct{}
}

func (h hungWaiter) Wait(context.Context, abstractions.WaitRequest) (abstractions.Wakeups, error) {
	<-h.release
	return abstractions.Wakeups{}, errNetwork
}

// T286: registrations that do not return do not stop the requests for the name.
func TestTrap_T286_RegistrationThatHeedsNoContextDoesNotStopThePolling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := hungWaiter{leasingtest.NewProvider(), make(chan struct{})}
		t.Cleanup(func() { close(h.release) })
		require.LessOrEqual(t, takeover(t, h, h.Provider, time.Second, 45*time.Second), 46*time.Second, "MaxPoll is 1 s")
	})
}

type waiterWithoutChannel struct{ *leasingtest.Provider }

func (waiterWithoutChannel) Wait(context.Context, abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return abstractions.Wakeups{}, nil
}

// T287: a head waiter that gets no channel polls as if there were no Waiter.
func TestTrap_T287_RegistrationWithoutAChannelIsNone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		require.LessOrEqual(t, takeover(t, waiterWithoutChannel{p}, p, time.Second, 45*time.Second), 46*time.Second, "MaxPoll is 1 s")
	})
}

// undescribedHolder is a provider that does not describe the holder.
type undescribedHolder struct{ *leasingtest.Provider }

func (c undescribedHolder) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	grant, err := c.Provider.Acquire(ctx, req)
	if errors.Is(err, leasing.ErrHeld) {
		return grant, leasing.ErrHeld
	}
	return grant, err
}

// T288: a release wakes a waiter even if the provider does not describe the holder.
func TestTrap_T288_BareErrHeldDoesNotKeepWakeupsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		require.Equal(t, 45*time.Second, takeover(t, undescribedHolder{p}, p, time.Minute, 45*time.Second))
	})
}

type roundedTTL struct{ *leasingtest.Provider }

func (r roundedTTL) As(any) bool { return false }

func (r roundedTTL) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	g, err := r.Provider.Acquire(ctx, req)
	g.TTL += time.Millisecond
	return g, err
}

func TestGrantOfAnotherTTLIsNotRenewedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		m := leasingtest.NewManagerOn(t, roundedTTL{p}, leasing.Options{NoAutoRenew: true})
		l, err := m.Acquire(t.Context(), name)
		require.NoError(t, err)
		defer func() { _ = l.Release(context.Background()) }()
		time.Sleep(20 * time.Second)
		require.Zero(t, p.Count(leasingtest.Renew), "NoAutoRenew")
	})
}

type hungRenewals struct {
	*leasingtest.Provider
	release chan struct{}
}

func (d hungRenewals) As(any) bool { return false }

func (d hungRenewals) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	<-d.release
	return abstractions.Grant{}, errNetwork
}

func TestCloseWithoutADeadlineOutlastsAHungProvider(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := hungRenewals{leasingtest.NewProvider(), make(chan struct{})}
		m, err := leasing.NewManager(d, leasing.Options{})
		require.NoError(t, err)
		l, err := m.Acquire(t.Context(), name)
		require.NoError(t, err)
		time.Sleep(20 * time.Second) // a renewal is under way
		require.NoError(t, l.Release(t.Context()))
		closed := make(chan struct{})
		go func() { _ = m.Close(context.Background()); close(closed) }()
		select {
		case <-closed:
		case <-time.After(time.Hour):
			t.Error("Close has not returned for an hour")
		}
		close(d.release)
		<-closed
	})
}

func TestCloseWithoutADeadlineOutlastsADeadBackend(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l, err := m.With(leasing.AcquireOptions{TTL: leasing.Infinite}).Acquire(t.Context(), name)
		require.NoError(t, err)
		time.Sleep(time.Second)
		p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, errNetwork))
		require.ErrorIs(t, l.Release(t.Context()), leasing.ErrUnavailable)
		closed := make(chan struct{})
		go func() { _ = m.Close(context.Background()); close(closed) }()
		select {
		case <-closed:
		case <-time.After(24 * time.Hour):
			t.Error("Close has not returned for a day")
		}
		p.Clear()
		<-closed
	})
}

func TestTrap_T38_ObserverThatEndsItsGoroutineIsIsolated(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var delivered atomic.Int64
		unsubscribe := m.Subscribe(func(e leasing.Event) {
			if delivered.Add(1) == 1 {
				runtime.Goexit() // as t.FailNow does
			}
		})
		defer unsubscribe()
		l := acquire(t, m, nil)
		synctest.Wait()
		require.NoError(t, l.Release(t.Context()))
		synctest.Wait()
		require.EqualValues(t, 2, delivered.Load(), "the Released event was not delivered")
	})
}

// An observer that ends its goroutine gets the later events in order.
func TestAnObserverThatEndsItsGoroutineKeepsTheOrder(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var events journal
		busy := make(chan struct{})
		var first atomic.Bool
		defer m.Subscribe(func(e leasing.Event) {
			events.observe(e)
			if first.CompareAndSwap(false, true) {
				<-busy
				return
			}
			if len(events.events) == 2 {
				l, err := m.TryAcquire(context.Background(), "while two events are pending")
				if err == nil {
					_ = l.Release(context.Background())
				}
				runtime.Goexit()
			}
		})()
		for _, each := range []string{"a", "b", "c"} {
			l, err := m.TryAcquire(t.Context(), each)
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context()))
		}
		close(busy)
		var names []string
		for _, e := range events.all() {
			names = append(names, e.Name)
		}
		last := "while two events are pending"
		require.Equal(t, []string{"a", "a", "b", "b", "c", "c", last, last}, names)
	})
}

func TestTTLOfTheAcquireReplacesTheManagers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		m := leasingtest.NewManagerOn(t, minuteTTL{p}, leasing.Options{TTL: 5 * time.Minute}) // valid: cut to 60 s
		l, err := m.With(leasing.AcquireOptions{TTL: 30 * time.Second, NoAutoRenew: true}).Acquire(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
	})
}

type minuteTTL struct{ *leasingtest.Provider }

func (c minuteTTL) Capabilities() leasing.Capabilities {
	caps := c.Provider.Capabilities()
	caps.MinTTL, caps.MaxTTL = 15*time.Second, time.Minute
	return caps
}

func TestLostWithoutAReasonHasOne(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Renew, 1, &leasing.LostError{}))
		l := acquire(t, m, nil)
		_ = l.Renew(t.Context())
		requireLost(t, l, leasing.LostGone)
	})
}

type closedWakeups struct{ *leasingtest.Provider }

func (c closedWakeups) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	ch := make(chan struct{})
	close(ch)
	return abstractions.Wakeups{C: ch}, nil
}

func TestWakeupsThatEndAreNotALoop(t *testing.T) {
	p := leasingtest.NewProvider() // real time
	m := leasingtest.NewManagerOn(t, closedWakeups{p}, leasing.Options{})
	other := leasingtest.NewManagerOn(t, p, leasing.Options{})
	held, err := other.With(leasing.AcquireOptions{TTL: time.Hour}).Acquire(t.Context(), name)
	require.NoError(t, err)
	defer func() { _ = held.Release(context.Background()) }()
	_, err = m.With(leasing.AcquireOptions{WaitLimit: 300 * time.Millisecond}).Acquire(t.Context(), name)
	require.ErrorIs(t, err, leasing.ErrHeld)
	require.Less(t, p.Count(leasingtest.Acquire), 100)
}

func TestThrottlingHasABound(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Acquire, 1, &leasing.ThrottledError{RetryAfter: 1000 * time.Hour}))
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		l, err := m.Acquire(ctx, name)
		require.NoError(t, err, "nobody had it for an hour")
		_ = l.Release(t.Context())
	})
}

func TestThrottlingDoesNotEndVerification(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		acquire(t, m, &leasing.AcquireOptions{TTL: leasing.Infinite})
		time.Sleep(time.Second)
		p.Use(leasingtest.Fail(leasingtest.Renew, 1, &leasing.ThrottledError{RetryAfter: 1000 * time.Hour}))
		time.Sleep(time.Minute)
		before := p.Count(leasingtest.Renew)
		time.Sleep(24 * time.Hour)
		require.Greater(t, p.Count(leasingtest.Renew), before, "an infinite lease is no longer verified")
	})
}

func TestBreakUnderAHugeTTL(t *testing.T) {
	virtual(t, leasing.Options{TTL: 200 * 365 * 24 * time.Hour}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		_, err := m.Break(t.Context(), name, leasing.BreakOptions{})
		require.NoError(t, err)
	})
}

type panickingHandler struct{ slog.Handler }

func (panickingHandler) Enabled(context.Context, slog.Level) bool { return true }

func (panickingHandler) Handle(context.Context, slog.Record) error { panic("log") }

func (p panickingHandler) WithAttrs([]slog.Attr) slog.Handler { return p }

func (p panickingHandler) WithGroup(string) slog.Handler { return p }

func TestTrap_T38_PanickingLoggerIsIsolated(t *testing.T) {
	virtual(t, leasing.Options{Logger: slog.New(panickingHandler{})}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		acquire(t, m, nil)
		synctest.Wait()
	})
}

func TestTrap_T60_PanicOfAProviderDoesNotBlockTheName(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		remove := p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error { panic("bug") })
		_, err := m.Acquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		require.ErrorContains(t, err, "the provider panicked: bug")
		remove()
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		l, err := m.Acquire(ctx, name)
		require.NoError(t, err, "the name is free, and nobody is before us")
		require.NoError(t, l.Release(t.Context()))
	})
}
