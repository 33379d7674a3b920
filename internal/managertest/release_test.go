package managertest_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

func TestRelease(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var events journal
		l := acquire(t, m, &leasing.AcquireOptions{Observer: events.observe})
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, l.Release(t.Context()), "again")
		require.ErrorIs(t, l.Err(), leasing.ErrReleased)
		require.NotErrorIs(t, l.Err(), leasing.ErrLost)
		require.ErrorIs(t, context.Cause(l.Context()), leasing.ErrReleased)
		require.Zero(t, l.Remaining())
		require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrReleased)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held)
		require.Equal(t, l.Token(), record.Token)
		require.Equal(t, 1, p.Count(leasingtest.Release))
		require.Equal(t, []leasing.EventKind{leasing.EventAcquired, leasing.EventReleased}, events.kinds())
		time.Sleep(time.Hour)
		require.Zero(t, p.Count(leasingtest.Renew))
	})
}

func TestTrap_T34_ReleaseReachesTheBackendOnACancelledContext(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Delay(leasingtest.Release, leasingtest.Always, 200*time.Millisecond))
		l := acquire(t, m, nil)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.NoError(t, l.Release(ctx))
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

func TestReleaseGoesOnInTheBackgroundWhenItsContextEnds(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		remove := p.Use(leasingtest.Hang(leasingtest.Release, leasingtest.Always))
		l := acquire(t, m, nil)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		start := time.Now()
		err := l.Release(ctx)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		require.Equal(t, 3*time.Second, time.Since(start), "its context, and a second")
		require.ErrorIs(t, l.Release(t.Context()), leasing.ErrUnavailable, "again: the same outcome")
		remove()
		time.Sleep(15 * time.Second)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held, "before its TTL of 30 s was over")
	})
}

func TestReleaseIsRetried(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.LoseReply(leasingtest.Release, 3, errNetwork))
		l := acquire(t, m, nil)
		require.NoError(t, l.Release(t.Context()))
		require.Equal(t, 4, p.Count(leasingtest.Release))
	})
}

// If a stall delays a release until its context has ended, the release fails in the provider and does not reach the backend. It
// is retried.
func TestReleaseThatWasNotSentInTimeIsRetried(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Release && p.Count(leasingtest.Release) == 1 {
				<-ctx.Done()
				return providerkit.MarkNotApplied(ctx.Err())
			}
			return apply()
		})
		l := acquire(t, m, &leasing.AcquireOptions{TTL: leasing.Infinite})
		require.NoError(t, l.Release(t.Context()))
		require.Equal(t, 2, p.Count(leasingtest.Release))
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

func TestTrap_T36_ReleaseErrorIsReported(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, errNetwork))
		var events journal
		l := acquire(t, m, &leasing.AcquireOptions{TTL: 5 * time.Second, Observer: events.observe})
		start := time.Now()
		require.ErrorIs(t, l.Release(t.Context()), leasing.ErrUnavailable)
		require.Equal(t, 5*time.Second, time.Since(start), "after that the backend has freed it by itself")
		released := events.ofKind(leasing.EventReleased)
		require.Len(t, released, 1)
		require.ErrorIs(t, released[0].Err, leasing.ErrUnavailable)
	})
}

func TestTrap_T36_ReleaseErrorDoesNotHideTheWorksResult(t *testing.T) {
	virtual(t, leasing.Options{TTL: time.Second}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, errNetwork))
		failed := errors.New("work failed")
		err := m.Do(t.Context(), name, func(context.Context, *leasing.Lease) error { return failed })
		require.ErrorIs(t, err, failed)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
	})
}

func TestReleaseOfALostLeaseSaysSo(t *testing.T) {
	virtual(t, leasing.Options{NoAutoRenew: true}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{TTL: time.Second})
		time.Sleep(2 * time.Second)
		require.ErrorIs(t, l.Release(t.Context()), leasing.ErrLost)
		require.Zero(t, p.Count(leasingtest.Release))
	})
}

func TestTrap_T35_ReleaseWaitsForTheWorkToStop(t *testing.T) {
	endWork(t, "release", "close")
}

func TestTrap_T59_RenewalGoesOnWhileCancelledWorkWindsUp(t *testing.T) {
	endWork(t, "cancel", "release", "close")
}

// endWork ends the work under a lease in each of the ways in stops. The work ends slowly, and the name must stay held until its
// end.
func endWork(t *testing.T, stops ...string) {
	for _, stop := range stops {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			done := make(chan error, 1)
			closed := make(chan error, 1)
			go func() {
				done <- m.Do(ctx, name, func(ctx context.Context, l *leasing.Lease) error {
					switch stop {
					case "cancel":
						cancel()
					case "release":
						if err := l.Release(ctx); err != nil {
							return err
						}
					case "close":
						go func() {
							ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
							defer cancel()
							closed <- m.Close(ctx)
						}()
					}
					<-ctx.Done()
					time.Sleep(5 * time.Minute) // cleaning up
					require.Zero(t, p.Count(leasingtest.Release), "released before the work had stopped")
					record, err := p.Inspect(context.Background(), abstractions.InspectRequest{Name: name})
					require.NoError(t, err)
					require.True(t, record.Held)
					require.Equal(t, l.Token(), record.Token)
					require.Positive(t, l.Remaining())
					return nil
				})
			}()
			require.NoError(t, <-done, stop)
			require.Equal(t, 1, p.Count(leasingtest.Release))
			if stop == "close" {
				require.NoError(t, <-closed)
			}
		})
	}
}

func TestDo(t *testing.T) {
	t.Run("cause of the end", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			reason := errors.New("shutting down")
			ctx, cancel := context.WithCancelCause(t.Context())
			err := m.Do(ctx, name, func(ctx context.Context, l *leasing.Lease) error {
				cancel(reason)
				<-ctx.Done()
				return context.Cause(ctx)
			})
			require.ErrorIs(t, err, reason)
			err = m.Do(t.Context(), name, func(ctx context.Context, l *leasing.Lease) error {
				require.NoError(t, l.Release(ctx))
				<-ctx.Done()
				return context.Cause(ctx)
			})
			require.ErrorIs(t, err, leasing.ErrReleased)
		})
	})
	t.Run("loss shows even if the function does not care", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			err := m.Do(t.Context(), name, func(ctx context.Context, _ *leasing.Lease) error {
				_, err := m.Break(t.Context(), name, leasing.BreakOptions{Immediate: true})
				require.NoError(t, err)
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), leasing.ErrLost)
				return nil
			})
			var lost *leasing.LostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, leasing.LostBroken, lost.Reason)
		})
	})
	t.Run("panic releases", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			require.PanicsWithValue(t, "ouch", func() {
				_ = m.Do(t.Context(), name, func(context.Context, *leasing.Lease) error { panic("ouch") })
			})
			require.Equal(t, 1, p.Count(leasingtest.Release))
		})
	})
	t.Run("once", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			acquire(t, m, nil)
			err := m.TryDo(t.Context(), name, func(context.Context, *leasing.Lease) error { panic("not reached") })
			require.ErrorIs(t, err, leasing.ErrHeld)
		})
	})
}

func TestTrap_T63_BreakMeantForOneHolderSparesTheNext(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var events journal
		defer m.Subscribe(events.observe)()
		first := acquire(t, m, nil)
		require.NoError(t, first.Release(t.Context()))
		second := acquire(t, m, nil)
		_, err := m.Break(t.Context(), name, leasing.BreakOptions{IfToken: first.Token(), Immediate: true})
		require.ErrorIs(t, err, leasing.ErrStale)
		require.NoError(t, second.Renew(t.Context()))
		require.Empty(t, events.ofKind(leasing.EventBroken))

		result, err := m.Break(t.Context(), name, leasing.BreakOptions{IfToken: second.Token()})
		require.NoError(t, err)
		require.True(t, result.WasHeld)
		require.Positive(t, result.Remaining)
		require.Len(t, events.ofKind(leasing.EventBroken), 1)
		start := time.Now()
		next, err := m.Acquire(t.Context(), name)
		require.NoError(t, err)
		require.Greater(t, next.Token(), second.Token())
		require.Greater(t, time.Since(start), 25*time.Second, "it ran out")
		requireLost(t, second, leasing.LostBroken)
		require.NoError(t, next.Release(t.Context()))
		synctest.Wait()
	})
}

// Renewals that hang don't keep the release from being sent.
func TestTrap_T89_HungRenewalsDoNotBlockTheRelease(t *testing.T) {
	virtual(t, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: time.Second}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		land := make(chan struct{})
		defer close(land)
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Renew {
				<-land
			}
			return apply()
		})
		for range 2 {
			require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrUnavailable)
		}
		began := time.Now()
		require.NoError(t, l.Release(t.Context()))
		require.Zero(t, time.Since(began))
		require.Equal(t, 1, p.Count(leasingtest.Release))
	})
}

// A request that is not sent because earlier requests hang fails as unavailable and as not applied.
func TestARequestBehindThoseThatHangIsUnavailable(t *testing.T) {
	virtual(t, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: time.Second}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		land := make(chan struct{})
		defer close(land)
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Renew {
				<-land
			}
			return apply()
		})
		for range 2 {
			require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrUnavailable)
		}
		err := l.Renew(t.Context())
		require.ErrorContains(t, err, "nothing was sent")
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		require.True(t, abstractions.NotApplied(err))
	})
}

// A lease's context is made by the first call of Context, which may come after the end of the lease.
func TestTheContextIsOneWheneverItIsAskedFor(t *testing.T) {
	type key struct{}
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider) {
		l, err := m.Acquire(context.WithValue(t.Context(), key{}, "of the acquire"), name)
		require.NoError(t, err)
		var all sync.WaitGroup
		contexts := make(chan context.Context, 8)
		all.Go(func() { _ = l.Release(t.Context()) })
		for range cap(contexts) {
			all.Go(func() { contexts <- l.Context() })
		}
		all.Wait()
		close(contexts)
		for ctx := range contexts {
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), leasing.ErrReleased)
			require.Equal(t, "of the acquire", ctx.Value(key{}))
			require.Equal(t, l.Done(), ctx.Done())
		}
	})
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Hang(leasingtest.Renew, leasingtest.Always))
		l := acquire(t, m, nil)
		time.Sleep(time.Hour)
		require.ErrorIs(t, context.Cause(l.Context()), leasing.ErrLost)
		<-l.Done()
		require.Equal(t, l.Err(), context.Cause(l.Context()))
	})
}
