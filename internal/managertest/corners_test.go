package managertest_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/metric/noop"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// The tests in this file end a lease, a wait or a manager while other work is under way.

func TestTrap_T16_CloseDuringAnAppliedAcquireLeavesNoGhost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := leasingtest.NewManager(t, leasing.Options{})
		other := leasingtest.NewManagerOn(t, p, leasing.Options{})
		held, err := other.Acquire(t.Context(), name)
		require.NoError(t, err)
		answer := make(chan error, 1)
		go func() {
			_, err := m.Acquire(context.Background(), name)
			answer <- err
		}()
		time.Sleep(3 * time.Second) // it waits
		p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			err := apply()
			if call.Op == leasingtest.Acquire && err == nil {
				<-ctx.Done()              // the reply is lost
				return context.Cause(ctx) // as net/http does
			}
			return err
		})
		require.NoError(t, held.Release(t.Context()))
		time.Sleep(50 * time.Millisecond) // the waiter's request is applied, and the reply is on its way
		require.NoError(t, m.Close(t.Context()))
		require.ErrorIs(t, <-answer, leasing.ErrClosed)
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.False(t, record.Held, "an ambiguous claim holds the name until its TTL has passed")
	})
}

func TestTrap_T16_AcquireUnderAnotherLeasesContextLeavesNoGhost(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		outer, err := m.Acquire(t.Context(), "outer")
		require.NoError(t, err)
		p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			err := apply()
			if call.Op == leasingtest.Acquire && call.Name == name && err == nil {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return err
		})
		time.AfterFunc(time.Second, func() { _ = outer.Release(context.Background()) })
		_, err = m.TryAcquire(outer.Context(), name)
		require.Error(t, err)
		time.Sleep(time.Second)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held, "nobody cleaned up")
	})
}

func TestTrap_T04_RenewUnderALostLeasesContextIsNoLoss(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		outer, err := m.Acquire(t.Context(), "outer")
		require.NoError(t, err)
		l := acquire(t, m, nil)
		p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Renew && call.Name == name {
				<-ctx.Done()
				return context.Cause(ctx)
			}
			return apply()
		})
		time.AfterFunc(time.Second, func() { leasingtest.Lose(t, p, outer, leasing.LostTaken) })
		require.Error(t, l.Renew(outer.Context()))
		require.NoError(t, l.Err(), "the other lease was lost, not this one")
	})
}

func TestTrap_T36_ThrottledReleaseGoesOnInTheBackground(t *testing.T) {
	virtual(t, leasing.Options{TTL: 10 * time.Minute}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		remove := p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, &leasing.ThrottledError{}))
		l := acquire(t, m, nil)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.Release(ctx), leasing.ErrThrottled)
		remove()
		time.Sleep(time.Minute)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held, "the release never reached the backend")
	})
}

func TestTrap_T16_InfiniteLeaseLostAmongThrottlingIsCleanedUp(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			switch {
			case call.Op != leasingtest.Renew:
				return apply()
			case call.N == 1: // infinite from here, but the reply is lost
				_ = apply()
				return errNetwork
			}
			return &leasing.ThrottledError{}
		})
		l, err := m.With(leasing.AcquireOptions{TTL: leasing.Infinite}).Acquire(t.Context(), name)
		require.NoError(t, err)
		<-l.Done()
		requireLost(t, l, leasing.LostExpired)
		p.Clear()
		time.Sleep(24 * time.Hour)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held, "nobody holds it, and it is held for ever")
	})
}

func TestTrap_T66_JoinedRenewalIsNotEndedByAnothersContext(t *testing.T) {
	virtual(t, leasing.Options{NoAutoRenew: true}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Delay(leasingtest.Renew, leasingtest.Always, time.Second))
		l := acquire(t, m, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		go func() { _ = l.Renew(ctx) }()
		synctest.Wait()
		require.NoError(t, l.Renew(t.Context()), "its own context lives")
	})
}

func TestBrokenInfiniteLeaseEndsBeforeTheNameIsFree(t *testing.T) {
	for what, c := range map[string]struct {
		breaker leasing.Options
		holder  leasing.AcquireOptions
	}{
		"slow verification":      {leasing.Options{}, leasing.AcquireOptions{TTL: leasing.Infinite, RenewCadence: 10 * time.Minute}},
		"breaker of shorter TTL": {leasing.Options{TTL: 3 * time.Second}, leasing.AcquireOptions{TTL: leasing.Infinite}},
	} {
		t.Run(what, func(t *testing.T) {
			virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
				first, err := m.With(c.holder).Acquire(t.Context(), name)
				if errors.Is(err, leasing.ErrInvalid) {
					return
				}
				require.NoError(t, err)
				defer func() { _ = first.Release(context.Background()) }()
				time.Sleep(time.Second)
				other := leasingtest.NewManagerOn(t, p, c.breaker)
				_, err = other.Break(t.Context(), name, leasing.BreakOptions{}) // not immediate
				require.NoError(t, err)
				second, err := other.Acquire(t.Context(), name)
				require.NoError(t, err)
				defer func() { _ = second.Release(context.Background()) }()
				require.False(t, first.Err() == nil && second.Err() == nil, "%s: two holders trust the name, and the backend answers everybody", what)
			})
		})
	}
}

type hookMeters struct {
	noop.MeterProvider
	hook func()
}

type hookMeter struct {
	noop.Meter
	hook func()
}

type hookCounter struct {
	noop.Int64Counter
	hook func()
}

func (p hookMeters) Meter(string, ...metric.MeterOption) metric.Meter { return hookMeter{hook: p.hook} }

func (m hookMeter) Int64Counter(name string, _ ...metric.Int64CounterOption) (metric.Int64Counter, error) {
	if name == "leasing.lost" {
		return hookCounter{hook: m.hook}, nil
	}
	return noop.Int64Counter{}, nil
}

func (c hookCounter) Enabled(context.Context) bool { return true }

func (c hookCounter) Add(_ context.Context, n int64, _ ...metric.AddOption) {
	if n > 0 {
		c.hook()
	}
}

func TestCloseDoesNotReleaseWhatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		m, p := leasingtest.NewManager(t, leasing.Options{MeterProvider: hookMeters{hook: func() {
			close(gate) // now the renewal under way is answered
			synctest.Wait()
		}}})
		l, err := m.Acquire(t.Context(), name)
		require.NoError(t, err)
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Renew {
				<-gate
			}
			return apply()
		})
		time.Sleep(19 * time.Second) // a renewal is under way
		require.Equal(t, 1, p.Count(leasingtest.Renew))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.Error(t, m.Close(ctx)) // "still in use and left to run out"
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.True(t, record.Held, "released beside its holder")
		require.Error(t, l.Err())
	})
}

func TestTrap_T30_WaitLimitThatComesWithTheTurn(t *testing.T) {
	for range 40 {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			other := leasingtest.NewManagerOn(t, p, leasing.Options{})
			held, err := other.With(leasing.AcquireOptions{TTL: time.Hour}).Acquire(t.Context(), name)
			require.NoError(t, err)
			defer func() { _ = held.Release(context.Background()) }()
			took := make(chan time.Duration, 5)
			for range 5 {
				go func() {
					start := time.Now()
					_, err := m.With(leasing.AcquireOptions{WaitLimit: 2 * time.Second}).Acquire(context.Background(), name)
					_ = err
					took <- time.Since(start)
				}()
			}
			for range 5 {
				require.LessOrEqual(t, <-took, 2*time.Second+100*time.Millisecond)
			}
		})
	}
}

func TestTrap_T36_DoReportsItsOwnLoss(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		others := fmt.Errorf("shard 7: %w", &leasing.LostError{Reason: leasing.LostBroken})
		err := m.Do(t.Context(), name, func(_ context.Context, l *leasing.Lease) error {
			leasingtest.Lose(t, p, l, leasing.LostTaken)
			return others
		})
		require.ErrorContains(t, err, "taken")
	})
}

func TestManyCleanUpsBlockNoQueueForLong(t *testing.T) {
	virtual(t, leasing.Options{TTL: 5 * time.Second}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Hang(leasingtest.Release, leasingtest.Always))
		p.Use(leasingtest.LoseReply(leasingtest.Acquire, 1000, errNetwork))
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 1000 {
			go func() { _, _ = m.Acquire(ctx, fmt.Sprint("n/", i)) }()
		}
		synctest.Wait()
		cancel()
		time.Sleep(time.Second)
		p.Clear()
		p.Use(leasingtest.Hang(leasingtest.Release, leasingtest.Always)) // only releases hang
		start := time.Now()
		var worst time.Duration
		for i := range 1000 {
			l, err := m.With(leasing.AcquireOptions{NoAutoRenew: true}).Acquire(t.Context(), fmt.Sprint("n/", i))
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Release(context.Background()) })
			worst = max(worst, time.Since(start))
		}
		require.Less(t, worst, 30*time.Second, "all ambiguous claims were released after 5 s")
		p.Clear()
	})
}

func TestCloseReportsCleanUpsItDropped(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l, err := m.With(leasing.AcquireOptions{TTL: leasing.Infinite}).Acquire(t.Context(), name)
		require.NoError(t, err)
		time.Sleep(time.Second)
		p.Use(leasingtest.Hang(leasingtest.Release, leasingtest.Always))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, l.Release(ctx)) // "leaves the rest to the background"
		ctx, cancel = context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.Error(t, m.Close(ctx), "the name stays held for ever without an error")
	})
}

func TestBrokenEventStandsForItself(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var events journal
		defer m.Subscribe(events.observe)()
		acquire(t, m, nil)
		_, err := m.Break(t.Context(), name, leasing.BreakOptions{})
		require.NoError(t, err)
		require.Equal(t, 1, events.ofKind(leasing.EventBroken)[0].Coalesced)
	})
}

type activeMeters struct {
	noop.MeterProvider
	hook func()
}

type activeMeter struct {
	noop.Meter
	hook func()
}

type activeHook struct {
	noop.Int64UpDownCounter
	hook func()
}

func (p activeMeters) Meter(string, ...metric.MeterOption) metric.Meter {
	return activeMeter{hook: p.hook}
}

func (m activeMeter) Int64UpDownCounter(name string, _ ...metric.Int64UpDownCounterOption) (metric.Int64UpDownCounter, error) {
	if name == "leasing.active.count" {
		return activeHook{hook: m.hook}, nil
	}
	return noop.Int64UpDownCounter{}, nil
}

func (c activeHook) Enabled(context.Context) bool { return true }

func (c activeHook) Add(context.Context, int64, ...metric.AddOption) { c.hook() }

func TestTrap_T61_SuspendWhileTheLeaseIsBeingScheduled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		machine := newMachine()
		arm := false
		p := leasingtest.NewProvider()
		m, err := newManagerOn(machine, p, leasing.Options{MeterProvider: activeMeters{hook: func() {
			if arm {
				arm = false
				machine.Suspend(time.Minute)
				synctest.Wait() // the loop has seen the resume; the new lease is not in the timetable yet
			}
		}}})
		require.NoError(t, err)
		defer func() { _ = m.Close(context.Background()) }()
		// An older lease is due in the middle of the suspend, so the alarm wakes the loop.
		old, err := m.Acquire(t.Context(), "old")
		require.NoError(t, err)
		defer func() { _ = old.Release(context.Background()) }()
		synctest.Wait()
		arm = true
		l, err := m.With(leasing.AcquireOptions{NoAutoRenew: true}).Acquire(t.Context(), name)
		require.NoError(t, err)
		defer func() { _ = l.Release(context.Background()) }()
		synctest.Wait()
		select {
		case <-l.Done():
		case <-time.After(5 * time.Second):
			t.Fatal("the trust ended during the suspend; the context lives on")
		}
	})
}

func TestTrap_T56_DelayedFirstAcquireOfALeaseThatWasReleased(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Acquire && call.N == 1 {
				time.AfterFunc(10*time.Second, func() { _ = apply() }) // delayed on its way
				return errNetwork
			}
			return apply()
		})
		l, err := m.Acquire(t.Context(), name) // the second request is granted
		require.NoError(t, err)
		require.NoError(t, l.Release(t.Context()))
		for range providerkit.EndedMost { // then the backend no longer remembers the released ID
			l, err := m.Acquire(t.Context(), name)
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context()))
		}
		time.Sleep(12 * time.Second)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held, "a late claim of a released lease holds the name until its TTL has passed")
	})
}
