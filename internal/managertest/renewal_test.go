package managertest_test

import (
	"context"
	"errors"
	"fmt"
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

var errNetwork = fmt.Errorf("%w: connection reset", leasing.ErrUnavailable)

func TestTrap_T01_TrustCountsFromBeforeTheRequest(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		const ttl, slow = 10 * time.Second, 2 * time.Second
		// The grant takes effect at once; its answer takes two seconds.
		p.Use(leasingtest.DelayReply(leasingtest.Acquire, leasingtest.Always, slow))
		p.Use(leasingtest.DelayReply(leasingtest.Renew, leasingtest.Always, slow))
		sent := time.Now()
		l := acquire(t, m, &leasing.AcquireOptions{TTL: ttl, NoAutoRenew: true})
		require.Equal(t, sent, l.AcquiredAt())
		require.Equal(t, window(ttl)-slow, l.Remaining())

		sent = time.Now()
		require.NoError(t, l.Renew(t.Context()))
		require.Equal(t, window(ttl)-slow, l.Remaining())
		require.Equal(t, sent.Add(window(ttl)), awaitEnd(t, l, ttl))
	})
}

func TestTrap_T02_WallClockDecidesNothing(t *testing.T) {
	// The core does not compare wall-clock times, and no grant contains a wall-clock time. A
	// backend whose clock is hours off makes no difference.
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{TTL: time.Second, NoAutoRenew: true})
		other := leasingtest.NewManagerOn(t, skewedClock{p, -3 * time.Hour}, leasing.Options{})
		start := time.Now()
		next, err := other.Acquire(t.Context(), name)
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), time.Second)
		require.Less(t, time.Since(start), time.Second+50*time.Millisecond)
		requireLost(t, l, leasing.LostExpired)
		require.NoError(t, next.Release(t.Context()))
	})
}

// skewedClock is a backend whose records show a clock that is off by a fixed time.
type skewedClock struct {
	leasing.Provider
	by time.Duration
}

func (s skewedClock) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	grant, err := s.Provider.Acquire(ctx, req)
	var held *leasing.HeldError
	if errors.As(err, &held) {
		held.Holder.Now = held.Holder.Now.Add(s.by)
		held.Holder.ExpiresAt = held.Holder.ExpiresAt.Add(s.by)
	}
	return grant, err
}

func TestTrap_T03_LossDoesNotWaitForAHungRenewal(t *testing.T) {
	for _, ttl := range []time.Duration{300 * time.Millisecond, 30 * time.Second} {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			release := make(chan struct{})
			p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
				if call.Op == leasingtest.Renew {
					<-release // even if the request's context has ended
				}
				return apply()
			})
			var events journal
			l := acquire(t, m, &leasing.AcquireOptions{TTL: ttl, Observer: events.observe})
			require.Equal(t, l.AcquiredAt().Add(window(ttl)), awaitEnd(t, l, ttl))
			requireLost(t, l, leasing.LostExpired)
			require.Len(t, events.ofKind(leasing.EventLost), 1)
			require.NotEmpty(t, events.ofKind(leasing.EventRenewalFailed), "and the attempt that hung had failed before")
			close(release)
		})
	}
}

func TestTrap_T04_TransientErrorIsNotLoss(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Renew, 3, errNetwork))
		var events journal
		l := acquire(t, m, &leasing.AcquireOptions{Observer: events.observe})
		time.Sleep(2 * time.Minute)
		require.NoError(t, l.Err())
		failed := events.ofKind(leasing.EventRenewalFailed)
		require.Len(t, failed, 3)
		for i, e := range failed {
			require.Equal(t, i+1, e.Attempt)
			require.True(t, e.WillRetry)
			require.ErrorIs(t, e.Err, leasing.ErrUnavailable)
			require.Positive(t, e.Remaining)
		}
		require.NotEmpty(t, events.ofKind(leasing.EventRenewed))
	})
}

func TestTrap_T04_DefiniteLossIsNotRetried(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, &leasing.LostError{Reason: leasing.LostTaken}))
		var events journal
		l := acquire(t, m, &leasing.AcquireOptions{Observer: events.observe})
		lostAt := awaitEnd(t, l, time.Minute)
		require.Less(t, lostAt.Sub(l.AcquiredAt()), 19*time.Second, "at the first renewal, not at the end of trust")
		time.Sleep(5 * time.Minute)
		require.Equal(t, 1, p.Count(leasingtest.Renew))
		requireLost(t, l, leasing.LostTaken)
		require.Equal(t, []leasing.EventKind{leasing.EventAcquired, leasing.EventLost}, events.kinds())
	})
}

func TestTrap_T06_RenewalNeverEndsSilently(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errors.New("something nobody thought of")))
		var events journal
		l := acquire(t, m, &leasing.AcquireOptions{Observer: events.observe})
		require.Equal(t, l.AcquiredAt().Add(window(30*time.Second)), awaitEnd(t, l, time.Minute))
		requireLost(t, l, leasing.LostExpired)
		all := events.all()
		require.Equal(t, leasing.EventLost, all[len(all)-1].Kind)
		require.Greater(t, len(all), 5, "it went on trying until the end")
		require.ErrorContains(t, l.Err(), "something nobody thought of")
	})
}

func TestTrap_T07_TTLStaysAsRequested(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		const ttl = 7 * time.Second
		acquire(t, m, &leasing.AcquireOptions{TTL: ttl})
		time.Sleep(time.Hour)
		require.Greater(t, p.Count(leasingtest.Renew), 800)
		for _, c := range p.Calls() {
			require.Equal(t, ttl, c.TTL, "%s %d", c.Op, c.N)
		}
	})
}

func TestTrap_T08_TTLOfTheCallDecidesTheSchedule(t *testing.T) {
	virtual(t, leasing.Options{TTL: 10 * time.Minute}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{TTL: 2 * time.Second})
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		require.GreaterOrEqual(t, p.Count(leasingtest.Renew), 49)
	})
}

// Leases of every TTL last as long as their backend answers. The time from one renewal to the next is 0.8 to 1 times the cadence.
func TestTrap_T09_T10_CadenceIsProportional(t *testing.T) {
	for _, ttl := range []time.Duration{300 * time.Millisecond, time.Second, 2 * time.Second, 30 * time.Second, 10 * time.Minute, 24 * time.Hour} {
		for _, latency := range []time.Duration{0, min(ttl/20, 5*time.Second)} {
			t.Run(fmt.Sprint(ttl, latency), func(t *testing.T) {
				virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
					p.Use(leasingtest.Delay(leasingtest.Renew, leasingtest.Always, latency))
					l := acquire(t, m, &leasing.AcquireOptions{TTL: ttl})
					time.Sleep(100 * ttl)
					require.NoError(t, l.Err())
					last := l.AcquiredAt()
					for _, sent := range callTimes(p.Calls(), leasingtest.Renew) {
						gap := sent.Sub(last)
						require.LessOrEqual(t, gap, ttl*6/10)
						require.GreaterOrEqual(t, gap, ttl*6/10*8/10)
						last = sent
					}
					require.GreaterOrEqual(t, l.Renewals(), 166)
				})
			})
		}
	}
}

// Random decides all jitter, so that a run in virtual time can be repeated.
func TestRandomDecidesAllJitter(t *testing.T) {
	random := func() float64 { return 0.5 }
	virtual(t, leasing.Options{Tuning: leasing.Tuning{Random: random}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		const ttl = 10 * time.Second
		l := acquire(t, m, &leasing.AcquireOptions{TTL: ttl})
		time.Sleep(100 * ttl)
		last := l.AcquiredAt()
		for _, sent := range callTimes(p.Calls(), leasingtest.Renew) {
			require.Equal(t, 5700*time.Millisecond, sent.Sub(last)) // 0.6 of the TTL, less half of a tenth
			last = sent
		}
		require.Equal(t, 175, l.Renewals())
	})
}

func TestTrap_T11_ManualRenewalIsARenewal(t *testing.T) {
	virtual(t, leasing.Options{NoAutoRenew: true}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var events journal
		l := acquire(t, m, &leasing.AcquireOptions{TTL: 10 * time.Second, Observer: events.observe})
		time.Sleep(5 * time.Second)
		require.NoError(t, l.Renew(t.Context()))
		require.Equal(t, 1, l.Renewals())

		remove := p.Use(leasingtest.Fail(leasingtest.Renew, 1, errNetwork))
		require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrUnavailable)
		remove()
		require.NoError(t, l.Err())
		failed := events.ofKind(leasing.EventRenewalFailed)
		require.Len(t, failed, 1)
		require.False(t, failed[0].WillRetry)

		leasingtest.Lose(t, p, l, leasing.LostTaken)
		requireLost(t, l, leasing.LostTaken)
		require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrLost)
		require.Len(t, events.ofKind(leasing.EventLost), 1)
	})
}

func TestTrap_T11_LossIsSignalledWithoutAutoRenewal(t *testing.T) {
	virtual(t, leasing.Options{NoAutoRenew: true}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var events journal
		l := acquire(t, m, &leasing.AcquireOptions{TTL: 10 * time.Second, Observer: events.observe})
		require.Equal(t, l.AcquiredAt().Add(window(10*time.Second)), awaitEnd(t, l, time.Minute))
		requireLost(t, l, leasing.LostExpired)
		require.Zero(t, p.Count(leasingtest.Renew))
		lost := events.ofKind(leasing.EventLost)
		require.Len(t, lost, 1)
		require.Equal(t, l.AcquiredAt(), lost[0].LastRenewal)
	})
}

func TestALossReportsTheLastRenewalThatSucceeded(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var events journal
		l := acquire(t, m, &leasing.AcquireOptions{Observer: events.observe})
		time.Sleep(time.Minute)
		require.Positive(t, l.Renewals())
		renewed := callTimes(p.Calls(), leasingtest.Renew)
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errNetwork))
		awaitEnd(t, l, time.Minute)
		lost := events.ofKind(leasing.EventLost)
		require.Len(t, lost, 1)
		require.WithinDuration(t, renewed[len(renewed)-1], lost[0].LastRenewal, 0)
	})
}

func TestTrap_T57_LateRenewalDoesNotRevive(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		const ttl = 10 * time.Second
		// Each renewal is applied at once, but answered only after the trust has run out.
		p.Use(leasingtest.DelayReply(leasingtest.Renew, leasingtest.Always, ttl))
		l := acquire(t, m, &leasing.AcquireOptions{TTL: ttl})
		lostAt := awaitEnd(t, l, time.Minute)
		require.Equal(t, l.AcquiredAt().Add(window(ttl)), lostAt)
		time.Sleep(ttl)
		requireLost(t, l, leasing.LostExpired)
		require.Zero(t, l.Renewals())
		require.Contains(t, callIDs(p.Calls(), leasingtest.Release), l.ID(), "what came back was released in the background")
		first := callTimes(p.Calls(), leasingtest.Release)[0]
		require.GreaterOrEqual(t, first.Sub(l.AcquiredAt()), ttl, "but not before the margin was over: its work may still be stopping")
	})
}

func TestTrap_T58_ThreeAttemptsFitIntoTheTrustLeft(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 30 * time.Second, 5 * time.Minute} {
		virtual(t, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: time.Hour}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			p.Use(leasingtest.Hang(leasingtest.Renew, 3))
			l := acquire(t, m, &leasing.AcquireOptions{TTL: ttl})
			time.Sleep(3 * ttl)
			require.NoError(t, l.Err(), "the fourth attempt saved it")
		})
	}
}

func TestTrap_T58_HungAttemptsDoNotFillTheEngine(t *testing.T) {
	// 2,000 leases whose renewals hang, and 50 healthy leases, share 4 workers.
	for _, batch := range []int{1, 64} {
		virtual(t, leasing.Options{Tuning: leasing.Tuning{RenewConcurrency: 4, RenewBatch: batch}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			var hanging atomic.Int64
			p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
				if call.Op == leasingtest.Renew && call.Name[0] == 'h' {
					hanging.Add(1)
					<-ctx.Done()
					return ctx.Err()
				}
				return apply()
			})
			var healthy []*leasing.Lease
			for i := range 2050 {
				kind := map[bool]string{true: "ok", false: "hung"}[i%41 == 0]
				l, err := m.Acquire(t.Context(), fmt.Sprintf("%s/%d", kind, i))
				require.NoError(t, err)
				if kind == "ok" {
					healthy = append(healthy, l)
				}
			}
			time.Sleep(10 * time.Minute)
			require.Positive(t, hanging.Load())
			for _, l := range healthy {
				require.NoError(t, l.Err(), l.Name())
				require.NoError(t, l.Release(t.Context()))
			}
			require.EqualValues(t, 2000, m.Health(t.Context()).Lost)
		})
	}
}

func TestRenewConcurrencyIsRespected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		m := leasingtest.NewManagerOn(t, noAbilities{p}, leasing.Options{Tuning: leasing.Tuning{RenewConcurrency: 2}})
		var running, most atomic.Int64
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Renew {
				if n := running.Add(1); n > most.Load() {
					most.Store(n)
				}
				defer running.Add(-1)
				time.Sleep(100 * time.Millisecond)
			}
			return apply()
		})
		for i := range 20 {
			l, err := m.Acquire(t.Context(), fmt.Sprintf("a/b/%d", i))
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Release(t.Context())) }()
		}
		time.Sleep(20 * time.Second)
		require.EqualValues(t, 20, p.Count(leasingtest.Renew))
		require.EqualValues(t, 2, most.Load())
	})
}

// A backend that is far away and renews one lease at a time needs many
// requests in flight, whatever the value of RenewConcurrency.
func TestConcurrencyBoundCostsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		m := leasingtest.NewManagerOn(t, noAbilities{p}, leasing.Options{Tuning: leasing.Tuning{RenewConcurrency: 2}})
		var leases []*leasing.Lease
		for i := range 2000 {
			l, err := m.Acquire(t.Context(), fmt.Sprintf("a/b/%d", i))
			require.NoError(t, err)
			leases = append(leases, l)
		}
		p.Use(leasingtest.Delay(leasingtest.Renew, leasingtest.Always, 200*time.Millisecond))
		time.Sleep(5 * time.Minute)
		for _, l := range leases {
			require.NoError(t, l.Err())
			require.NoError(t, l.Release(t.Context()))
		}
	})
}

func TestInfiniteLeaseBeginsFiniteAndIsVerified(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{TTL: leasing.Infinite})
		synctest.Wait()
		calls := p.Calls()
		require.Equal(t, 30*time.Second, calls[0].TTL, "a lost reply must not block the name for ever")
		require.Equal(t, leasing.Infinite, calls[1].TTL)
		require.Equal(t, leasing.Infinite, l.TTL())
		require.Equal(t, leasing.Infinite, l.Remaining())

		p.Use(leasingtest.Fail(leasingtest.Renew, 50, errNetwork))
		time.Sleep(24 * time.Hour)
		require.NoError(t, l.Err(), "an outage does not end it")
		require.Greater(t, p.Count(leasingtest.Renew), 4000, "it is verified")

		_, err := m.Break(t.Context(), name, leasing.BreakOptions{IfToken: l.Token()})
		require.NoError(t, err)
		brokenAt := time.Now()
		require.Less(t, awaitEnd(t, l, time.Hour).Sub(brokenAt), 20*time.Second, "within a cadence")
		requireLost(t, l, leasing.LostBroken)
	})
}

func TestInfiniteLeaseNeverConfirmedIsLostAndCleanedUp(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.LoseReply(leasingtest.Renew, leasingtest.Always, errNetwork))
		l := acquire(t, m, &leasing.AcquireOptions{TTL: leasing.Infinite})
		require.Equal(t, l.AcquiredAt().Add(window(30*time.Second)), awaitEnd(t, l, time.Minute))
		time.Sleep(time.Second)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held, "the backend had made it infinite")
		require.GreaterOrEqual(t, callTimes(p.Calls(), leasingtest.Release)[0].Sub(l.AcquiredAt()), 30*time.Second, "not before the margin was over")
	})
}

func TestMaxRenewals(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{TTL: 10 * time.Second, MaxRenewals: 3})
		for l.Renewals() < 3 {
			time.Sleep(100 * time.Millisecond)
		}
		require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrInvalid)
		awaitEnd(t, l, time.Minute)
		requireLost(t, l, leasing.LostRenewalLimit)
		require.Equal(t, 3, p.Count(leasingtest.Renew))
	})
}

func TestRenewJoinsTheRenewalUnderWay(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Delay(leasingtest.Renew, leasingtest.Always, time.Second))
		l := acquire(t, m, nil)
		first := make(chan error, 1)
		go func() { first <- l.Renew(t.Context()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, l.Renew(ctx), context.DeadlineExceeded)
		require.NoError(t, l.Renew(t.Context()))
		require.NoError(t, <-first)
		require.Equal(t, 1, p.Count(leasingtest.Renew))
	})
}

func TestAnswerForAnotherLeaseIsNoRenewal(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Renew {
				return nil // without a grant
			}
			return apply()
		})
		l := acquire(t, m, &leasing.AcquireOptions{NoAutoRenew: true})
		require.ErrorContains(t, l.Renew(t.Context()), "the provider answered for")
		awaitEnd(t, l, time.Minute)
		requireLost(t, l, leasing.LostExpired)
	})
}

// While a server hangs, goroutines and requests stay few, whatever the number of
// leases, and whether or not renewals can share a request.
func TestTrap_T89_GoroutinesStayBoundedWhileTheServerHangs(t *testing.T) {
	for _, batch := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			var backend leasing.Provider = p
			if !batch {
				backend = noAbilities{p}
			}
			m := leasingtest.NewManagerOn(t, backend, leasing.Options{})
			n := 5_000 // far more than the bounds below
			if testing.Short() {
				n = 1_500
			}
			for i := range n {
				_, err := m.Acquire(t.Context(), fmt.Sprint("hung/", i))
				require.NoError(t, err)
			}
			var inFlight, most atomic.Int64
			p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
				if call.Op == leasingtest.Renew && call.Name[0] == 'h' {
					if now := inFlight.Add(1); now > most.Load() {
						most.Store(now)
					}
					defer inFlight.Add(-1)
					<-ctx.Done()
					return ctx.Err()
				}
				return apply()
			})
			var healthy []*leasing.Lease
			for i := range 50 {
				l, err := m.Acquire(t.Context(), fmt.Sprint("ok/", i))
				require.NoError(t, err)
				healthy = append(healthy, l)
			}
			goroutines := 0
			for range 1200 {
				time.Sleep(50 * time.Millisecond)
				goroutines = max(goroutines, runtime.NumGoroutine())
			}
			t.Logf("batches %v: at most %d requests and %d goroutines", batch, most.Load(), goroutines)
			require.LessOrEqual(t, most.Load(), int64(600))
			require.Less(t, goroutines, 1500)
			require.EqualValues(t, n, m.Health(t.Context()).Lost)
			for _, l := range healthy {
				require.NoError(t, l.Err(), "%s is starved", l.Name())
				require.NoError(t, l.Release(t.Context()))
			}
			p.Clear()
		})
	}
}

// Renew passes the values of its context on to the provider, since spans depend on these values.
func TestRenewKeepsTheValuesOfItsContext(t *testing.T) {
	type key struct{}
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		var seen any
		p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Renew {
				seen = ctx.Value(key{})
			}
			return apply()
		})
		require.NoError(t, l.Renew(context.WithValue(t.Context(), key{}, "value")))
		require.Equal(t, "value", seen)
	})
}
