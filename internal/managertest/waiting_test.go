package managertest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// noAbilities hides a provider's optional abilities.
type noAbilities struct{ leasing.Provider }

func (noAbilities) As(any) bool { return false }

// queueUp starts n waiters, one after the other. Each waiter records its place in the order of grants, and holds the lease for a
// while before the release.
func queueUp(t *testing.T, m *leasing.Manager, n int, hold time.Duration) (order func() []int) {
	t.Helper()
	var mu sync.Mutex
	var got []int
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			l, err := m.Acquire(context.Background(), name)
			if err != nil {
				t.Errorf("waiter %d: %v", i, err)
				return
			}
			mu.Lock()
			got = append(got, i)
			mu.Unlock()
			time.Sleep(hold)
			if err := l.Release(context.Background()); err != nil {
				t.Errorf("waiter %d: %v", i, err)
			}
		})
		synctest.Wait()
	}
	return func() []int {
		all.Wait()
		return got
	}
}

// cancelAfterAcquire calls cancel when a request has been answered.
type cancelAfterAcquire struct {
	leasing.Provider
	cancel func()
}

func (p cancelAfterAcquire) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	defer p.cancel()
	return p.Provider.Acquire(ctx, req)
}

func (cancelAfterAcquire) As(any) bool { return false }

// An answer counts even if the wait ends before the manager reads the answer.
func TestAnswerAtTheEndOfAWaitIsReturned(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		holder := acquire(t, m, nil)
		ctx, cancel := context.WithCancel(t.Context())
		_, err := leasingtest.NewManagerOn(t, cancelAfterAcquire{p, cancel}, leasing.Options{}).Acquire(ctx, name)
		require.ErrorIs(t, err, context.Canceled)
		var held *leasing.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, leasing.FingerprintOf(holder.ID()), held.Holder.Fingerprint)
	})
}

func TestWaitersAreServedInOrder(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		first := acquire(t, m, nil)
		order := queueUp(t, m, 20, 10*time.Millisecond)
		require.EqualValues(t, 20, m.Health(t.Context()).Waiting)
		start := time.Now()
		require.NoError(t, first.Release(t.Context()))
		require.Equal(t, []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}, order())
		require.Less(t, time.Since(start), 250*time.Millisecond, "handed over, not polled for")
		require.Zero(t, m.Health(t.Context()).Waiting)
	})
}

func TestTrap_T29_ManyWaitersCostWhatOneDoes(t *testing.T) {
	cost := func(waiters int) (requests int) {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			holder := leasingtest.NewManagerOn(t, p, leasing.Options{NoAutoRenew: true})
			m := leasingtest.NewManagerOn(t, noAbilities{p}, leasing.Options{})
			l := acquire(t, holder, &leasing.AcquireOptions{TTL: time.Hour})
			before := p.Count(leasingtest.Acquire)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Minute)
			defer cancel()
			var all sync.WaitGroup
			for range waiters {
				all.Go(func() {
					_, err := m.Acquire(ctx, name)
					if err == nil {
						t.Error("two holders")
					}
				})
			}
			all.Wait()
			requests = p.Count(leasingtest.Acquire) - before
			require.NoError(t, l.Release(t.Context()))
		})
		return requests
	}
	one, hundred := cost(1), cost(100)
	require.Less(t, one, 30*60*3/2, "with the default MaxPoll of a second")
	require.Less(t, hundred, one*12/10+5)
}

func TestTrap_T29_PollingIsJittered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		holder := leasingtest.NewManagerOn(t, p, leasing.Options{NoAutoRenew: true})
		acquire(t, holder, &leasing.AcquireOptions{TTL: time.Hour})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := leasingtest.NewManagerOn(t, noAbilities{p}, leasing.Options{}).Acquire(ctx, name)
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		gaps := map[time.Duration]bool{}
		asked := callTimes(p.Calls(), leasingtest.Acquire)
		for i := 2; i < len(asked); i++ {
			gap := asked[i].Sub(asked[i-1])
			require.LessOrEqual(t, gap, time.Second)
			gaps[gap] = true
		}
		require.Greater(t, len(gaps), len(asked)/2)
	})
}

func TestWaiterTakesOverWhenTheHoldersTimeIsUp(t *testing.T) {
	// The holder's process died: the lease is neither released nor renewed.
	for _, push := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			dead := leasingtest.NewManagerOn(t, p, leasing.Options{NoAutoRenew: true})
			l := acquire(t, dead, &leasing.AcquireOptions{TTL: 10 * time.Second})
			var backend leasing.Provider = noAbilities{p}
			if push {
				backend = p
			}
			next := acquire(t, leasingtest.NewManagerOn(t, backend, leasing.Options{}), nil)
			beyond := next.AcquiredAt().Sub(l.AcquiredAt().Add(10 * time.Second))
			require.GreaterOrEqual(t, beyond, time.Duration(0))
			require.LessOrEqual(t, beyond, 2*time.Millisecond)
		})
	}
}

func TestTrap_T32_PushIsAHintAndPollingTheFallback(t *testing.T) {
	t.Run("wake-ups never come", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			l := acquire(t, leasingtest.NewManagerOn(t, p, leasing.Options{}), nil)
			m := leasingtest.NewManagerOn(t, lostWakeups{p}, leasing.Options{})
			time.AfterFunc(time.Hour, func() { _ = l.Release(context.Background()) })
			next := acquire(t, m, nil)
			require.Less(t, next.AcquiredAt().Sub(l.AcquiredAt()), time.Hour+11*time.Second)
		})
	})
	t.Run("registration fails", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			l := acquire(t, leasingtest.NewManagerOn(t, p, leasing.Options{}), nil)
			p.Use(leasingtest.Fail(leasingtest.Wait, leasingtest.Always, errNetwork))
			m := leasingtest.NewManagerOn(t, p, leasing.Options{})
			time.AfterFunc(time.Hour, func() { _ = l.Release(context.Background()) })
			next := acquire(t, m, nil)
			require.Less(t, next.AcquiredAt().Sub(l.AcquiredAt()), time.Hour+2*time.Second)
		})
	})
	t.Run("release between check and registration", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			l := acquire(t, leasingtest.NewManagerOn(t, p, leasing.Options{}), nil)
			p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
				if call.Op == leasingtest.Wait {
					_ = l.Release(context.Background())
				}
				return apply()
			})
			next := acquire(t, leasingtest.NewManagerOn(t, p, leasing.Options{}), nil)
			require.Less(t, next.AcquiredAt().Sub(l.AcquiredAt()), 10*time.Millisecond)
		})
	})
	t.Run("false wake-ups", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			l := acquire(t, leasingtest.NewManagerOn(t, p, leasing.Options{}), nil)
			m := leasingtest.NewManagerOn(t, falseWakeups{p}, leasing.Options{})
			_, err := m.With(leasing.AcquireOptions{WaitLimit: 10 * time.Second}).Acquire(t.Context(), name)
			require.ErrorIs(t, err, leasing.ErrHeld)
			require.NoError(t, l.Err())
		})
	})
}

func TestTrap_T31_WakeupDoesNotEndAPauseThatTheBackendAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		acquire(t, leasingtest.NewManagerOn(t, p, leasing.Options{}), &leasing.AcquireOptions{TTL: time.Hour})
		m := leasingtest.NewManagerOn(t, falseWakeups{p}, leasing.Options{})
		done := make(chan error, 1)
		go func() {
			_, err := m.With(leasing.AcquireOptions{WaitLimit: time.Minute}).Acquire(t.Context(), name)
			done <- err
		}()
		time.Sleep(3500 * time.Millisecond)
		p.Use(leasingtest.Fail(leasingtest.Acquire, 1, &leasing.ThrottledError{RetryAfter: 10 * time.Second}))
		time.Sleep(1500 * time.Millisecond) // during this time a wake-up makes the waiter ask
		asked := p.Count(leasingtest.Acquire)
		time.Sleep(8 * time.Second)
		require.Equal(t, asked, p.Count(leasingtest.Acquire))
		time.Sleep(3 * time.Second)
		require.Greater(t, p.Count(leasingtest.Acquire), asked)
		require.ErrorIs(t, <-done, leasing.ErrHeld)
	})
}

// lostWakeups registers waiters, but sends no wake-ups.
type lostWakeups struct{ *leasingtest.Provider }

func (lostWakeups) Wait(context.Context, abstractions.WaitRequest) (abstractions.Wakeups, error) {
	return abstractions.Wakeups{C: make(chan struct{})}, nil
}

// falseWakeups sends a wake-up each second for no reason.
type falseWakeups struct{ *leasingtest.Provider }

func (falseWakeups) Wait(ctx context.Context, _ abstractions.WaitRequest) (abstractions.Wakeups, error) {
	c := make(chan struct{}, 1)
	go func() {
		for ctx.Err() == nil {
			select {
			case c <- struct{}{}:
			case <-ctx.Done():
			}
			select {
			case <-time.After(time.Second):
			case <-ctx.Done():
			}
		}
	}()
	return abstractions.Wakeups{C: c}, nil
}

func TestTrap_T60_NextWaiterSeesNoClaimOfTheHeadThatLeft(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		// The head's request is applied, but the answer takes long; the head leaves before the answer.
		var first atomic.Bool
		p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op != leasingtest.Acquire || !first.CompareAndSwap(false, true) {
				return apply()
			}
			_ = apply()
			<-ctx.Done()
			return ctx.Err()
		})
		p.Use(leasingtest.Delay(leasingtest.Release, leasingtest.Always, 20*time.Millisecond))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		gone := make(chan error, 1)
		go func() {
			_, err := m.With(leasing.AcquireOptions{TTL: time.Hour}).Acquire(ctx, name)
			gone <- err
		}()
		synctest.Wait()
		next := acquire(t, m, nil)
		require.ErrorIs(t, <-gone, context.DeadlineExceeded)
		require.Less(t, next.AcquiredAt().Sub(p.Calls()[0].At), 1100*time.Millisecond, "not after the ambiguous claim's TTL")
		require.Len(t, callIDs(p.Calls(), leasingtest.Acquire), 2, "it asked once, when the way was clear")
	})
}

// T250: the manager's own lease ends while the first request of a waiter is under way. The waiter asks again at once.
func TestTrap_T250_AReleaseDuringAWaitersFirstRequest(t *testing.T) {
	virtual(t, leasing.Options{Tuning: leasing.Tuning{MinPoll: time.Minute, MaxPoll: time.Hour}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Wait, leasingtest.Always, leasing.ErrUnavailable)) // nothing else wakes a waiter
		held := acquire(t, m, &leasing.AcquireOptions{TTL: 24 * time.Hour})
		p.Use(leasingtest.DelayReply(leasingtest.Acquire, 1, time.Second))
		waited := make(chan time.Duration, 1)
		go func() {
			begun := time.Now()
			acquire(t, m, nil)
			waited <- time.Since(begun)
		}()
		synctest.Wait()
		require.NoError(t, held.Release(t.Context()))
		require.Equal(t, time.Second, <-waited)
	})
}

// T289: a waiter behind the head asks after its limit. The provider's error says only that the context has ended.
func TestTrap_T289_EndOfTheOneRequestAfterTheLimit(t *testing.T) {
	for _, cause := range []error{nil, errors.New("shift is over")} {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			acquire(t, leasingtest.NewManagerOn(t, p, leasing.Options{}), nil)
			ctx, leave := context.WithCancelCause(t.Context())
			defer leave(nil)
			var first sync.WaitGroup
			first.Go(func() { _, _ = m.Acquire(ctx, name) })
			synctest.Wait()
			p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
				if call.Op != leasingtest.Acquire {
					return apply()
				}
				<-ctx.Done()
				return ctx.Err()
			})
			if cause != nil {
				time.AfterFunc(1500*time.Millisecond, func() { leave(cause) })
			}
			_, err := m.With(leasing.AcquireOptions{WaitLimit: time.Second}).Acquire(ctx, name)
			if cause != nil {
				require.ErrorIs(t, err, cause)
			} else {
				require.ErrorIs(t, err, leasing.ErrUnavailable)
				require.NotErrorIs(t, err, context.DeadlineExceeded, "of no context of the caller's")
			}
			leave(nil)
			first.Wait()
		})
	}
}

func TestLocalWaitersDoNotKeepOthersOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		busy := leasingtest.NewManagerOn(t, noAbilities{p}, leasing.Options{})
		other := leasingtest.NewManagerOn(t, noAbilities{p}, leasing.Options{})
		stop := make(chan struct{})
		var all sync.WaitGroup
		var turns atomic.Int64
		for range 8 {
			all.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					l, err := busy.Acquire(context.Background(), name)
					if err != nil {
						t.Error(err)
						return
					}
					turns.Add(1)
					time.Sleep(10 * time.Millisecond)
					_ = l.Release(context.Background())
				}
			})
		}
		time.Sleep(time.Second)
		for range 5 {
			start := time.Now()
			l, err := other.Acquire(t.Context(), name)
			require.NoError(t, err)
			require.Less(t, time.Since(start), 12*time.Second)
			require.NoError(t, l.Release(t.Context()))
		}
		close(stop)
		all.Wait()
		require.Greater(t, turns.Load(), int64(80), "and the busy ones still get on")
	})
}

func TestExclusiveAmongManagers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		var inside, turns atomic.Int64
		var last atomic.Int64
		var all sync.WaitGroup
		for range 4 {
			m := leasingtest.NewManagerOn(t, p, leasing.Options{})
			for range 8 {
				all.Go(func() {
					for range 5 {
						err := m.Do(context.Background(), name, func(_ context.Context, l *leasing.Lease) error {
							if inside.Add(1) != 1 {
								return fmt.Errorf("two inside")
							}
							defer inside.Add(-1)
							if before := last.Swap(l.Token()); before >= l.Token() {
								return fmt.Errorf("token %d after %d", l.Token(), before)
							}
							turns.Add(1)
							time.Sleep(time.Millisecond)
							return nil
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		all.Wait()
		require.EqualValues(t, 160, turns.Load())
	})
}

// The next waiter waits for the clean-up of the previous waiter's claim, which may itself have to wait while clean-ups of other
// names hang. The waiter waits no longer than the TTL of that claim.
func TestTrap_T94_AWaiterWaitsForACleanUpThatHasNoPlace(t *testing.T) {
	virtual(t, leasing.Options{TTL: 2 * time.Second}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			switch {
			case call.Name != name && call.Op == leasingtest.Acquire:
				_ = apply()
				return errNetwork
			case call.Name != name && call.Op == leasingtest.Release, call.Op == leasingtest.Acquire && call.N == 21:
				<-ctx.Done()
				return ctx.Err()
			}
			return apply()
		})
		for i := range 20 {
			_, err := m.With(leasing.AcquireOptions{TTL: time.Hour}).TryAcquire(t.Context(), fmt.Sprintf("other/%d", i))
			require.ErrorIs(t, err, errNetwork)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := m.Acquire(short, name)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		began := time.Now()
		l := acquire(t, m, nil)
		require.LessOrEqual(t, time.Since(began), 2*time.Second)
		require.NoError(t, l.Release(t.Context()))
		p.Clear()
	})
}
