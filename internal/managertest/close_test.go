package managertest_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestCloseWaitsForHolders(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		closed := make(chan error, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
		defer cancel()
		go func() { closed <- m.Close(ctx) }()
		awaitEnd(t, l, time.Second)
		require.ErrorIs(t, l.Err(), leasing.ErrClosed)
		require.NotErrorIs(t, l.Err(), leasing.ErrReleased)
		time.Sleep(10 * time.Minute) // the holder winds up its work
		require.Positive(t, p.Count(leasingtest.Renew), "renewals go on")
		require.Empty(t, closed)
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-closed)
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

func TestCloseLeavesWhatIsInUseToRunOut(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var events journal
		l := acquire(t, m, &leasing.AcquireOptions{Observer: events.observe})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		err := m.Close(ctx)
		require.Equal(t, 5*time.Second, time.Since(start))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "still in use and left to run out (1): "+name)
		var left *leasing.CloseError
		require.ErrorAs(t, err, &left)
		require.Equal(t, []string{name}, left.InUse)
		require.Zero(t, p.Count(leasingtest.Release), "released under its holder")
		lost := events.ofKind(leasing.EventLost)
		require.Len(t, lost, 1)
		require.Equal(t, leasing.LostClosed, lost[0].Reason)
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.True(t, record.Held)
		require.ErrorIs(t, l.Release(t.Context()), leasing.ErrLost, "the holder sees the loss")
		require.Equal(t, 1, p.Count(leasingtest.Release), "and the name freed, now that it is not in use")
	})
}

func TestTrap_T39_CloseAtAnyTime(t *testing.T) {
	t.Run("twice and together", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider) {
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if err := m.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			require.NoError(t, m.Close(t.Context()))
		})
	})
	t.Run("during waits", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			l := acquire(t, m, nil)
			waits := make(chan error, 10)
			for range 10 {
				go func() {
					_, err := m.Acquire(context.Background(), name)
					waits <- err
				}()
			}
			synctest.Wait()
			closed := make(chan error, 1)
			go func() { closed <- m.Close(context.Background()) }()
			for range 10 {
				require.ErrorIs(t, <-waits, leasing.ErrClosed)
			}
			require.NoError(t, l.Release(t.Context()))
			require.NoError(t, <-closed)
		})
	})
	t.Run("during a request", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			p.Use(leasingtest.Delay(leasingtest.Acquire, 1, time.Second))
			got := make(chan error, 1)
			go func() {
				_, err := m.Acquire(context.Background(), name)
				got <- err
			}()
			synctest.Wait()
			require.NoError(t, m.Close(t.Context()))
			require.ErrorIs(t, <-got, leasing.ErrClosed)
			record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
			require.NoError(t, err)
			require.False(t, record.Held, "what came too late was given back")
		})
	})
	t.Run("during a hung renewal", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			p.Use(leasingtest.Hang(leasingtest.Renew, leasingtest.Always))
			l := acquire(t, m, nil)
			time.Sleep(19 * time.Second)
			require.NoError(t, l.Release(t.Context()))
			start := time.Now()
			require.NoError(t, m.Close(t.Context()))
			require.Zero(t, time.Since(start))
		})
	})
	t.Run("with a context that has ended", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, _ *leasingtest.Provider) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, m.Close(ctx), "nothing was in use")
		})
	})
}

// If Close gives up before an acquire is answered, no caller gets the lease, and no loop is left for the clean-up. The claim is
// released nevertheless.
func TestTrap_T97_AnAcquireThatOutlastsCloseKeepsItsName(t *testing.T) {
	for what, acquire := range map[string]func(*leasing.Manager) (*leasing.Lease, error){
		"asks":  func(m *leasing.Manager) (*leasing.Lease, error) { return m.TryAcquire(context.Background(), name) },
		"waits": func(m *leasing.Manager) (*leasing.Lease, error) { return m.Acquire(context.Background(), name) },
	} {
		t.Run(what, func(t *testing.T) {
			virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
				p.Use(leasingtest.Delay(leasingtest.Acquire, 1, time.Second))
				got := make(chan error, 1)
				go func() {
					_, err := acquire(m)
					got <- err
				}()
				synctest.Wait()
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				_ = m.Close(ctx)
				require.ErrorIs(t, <-got, leasing.ErrClosed)
				record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
				require.NoError(t, err)
				require.False(t, record.Held)
			})
		})
	}
}

func TestClosedManagerRefuses(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		require.NoError(t, m.Close(t.Context()))
		_, err := m.Acquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrClosed)
		_, err = m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrClosed)
		_, err = m.Inspect(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrClosed)
		_, err = m.Break(t.Context(), name, leasing.BreakOptions{})
		require.ErrorIs(t, err, leasing.ErrClosed)
		for _, err := range m.List(t.Context(), leasing.ListOptions{}) {
			require.ErrorIs(t, err, leasing.ErrClosed)
		}
		health := m.Health(t.Context())
		require.Equal(t, leasing.Unhealthy, health.Status)
		require.True(t, health.Closed)
		require.Empty(t, p.Calls())
	})
}

func TestCloseTriesPendingCleanUpsOnceMore(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		lost := p.Use(leasingtest.LoseReply(leasingtest.Acquire, 1, errNetwork))
		down := p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, errNetwork))
		_, err := m.With(leasing.AcquireOptions{TTL: time.Hour}).TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		time.Sleep(5 * time.Minute)
		lost()
		down()
		require.NoError(t, m.Close(t.Context()))
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

// A clean-up that was answered is repeated until the TTL has passed. Close makes the last repetition at once.
func TestCloseDoesNotWaitForTheRepetitionsOfACleanUp(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.LoseReply(leasingtest.Acquire, 1, errNetwork))
		_, err := m.With(leasing.AcquireOptions{TTL: time.Hour}).TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		time.Sleep(time.Minute)
		released := p.Count(leasingtest.Release)
		require.Positive(t, released)
		start := time.Now()
		require.NoError(t, m.Close(t.Context()))
		require.Less(t, time.Since(start), time.Second)
		require.Equal(t, released+1, p.Count(leasingtest.Release), "once more, for an acquire that landed since")
	})
}

func TestTrap_T40_NothingIsRenewedThatNobodyOwns(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		for i := range 20 {
			l, err := m.With(leasing.AcquireOptions{TTL: time.Second}).Acquire(t.Context(), fmt.Sprintf("a/b/%d", i))
			require.NoError(t, err)
			if i%2 == 0 {
				leasingtest.Lose(t, p, l, leasing.LostTaken)
			} else {
				require.NoError(t, l.Release(t.Context()))
			}
		}
		renewed := p.Count(leasingtest.Renew)
		time.Sleep(time.Hour)
		require.Equal(t, renewed, p.Count(leasingtest.Renew))
		require.Zero(t, m.Health(t.Context()).Held)
	})
}

// Other renewals are queued behind one that hangs. The callers of the queued renewals get an error when the manager
// closes, when the leases are released, and when the trust runs out.
func TestTrap_T68_QueuedRenewalIsSettledAtClose(t *testing.T) {
	for _, way := range []string{"close", "release", "expiry"} {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			m, err := leasing.NewManager(noAbilities{p}, leasing.Options{Tuning: leasing.Tuning{RenewConcurrency: 1}})
			require.NoError(t, err)
			p.Use(leasingtest.Hang(leasingtest.Renew, leasingtest.Always))
			var leases []*leasing.Lease
			for i := range 10 {
				l, err := m.Acquire(t.Context(), fmt.Sprint(i))
				require.NoError(t, err)
				leases = append(leases, l)
			}
			time.Sleep(18500 * time.Millisecond) // most of them are due, and one is sent
			answers := make(chan error, len(leases))
			for _, l := range leases {
				go func() { answers <- l.Renew(context.Background()) }()
			}
			synctest.Wait()
			switch way {
			case "close":
				ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
				defer cancel()
				require.ErrorIs(t, m.Close(ctx), context.DeadlineExceeded)
			case "release":
				for _, l := range leases {
					require.NoError(t, l.Release(t.Context()))
				}
			case "expiry":
				time.Sleep(12 * time.Second)
			}
			synctest.Wait()
			require.Len(t, answers, len(leases), "%s: nobody waits for a request that will not start", way)
			for range leases {
				require.Error(t, <-answers)
			}
			for _, l := range leases {
				_ = l.Release(t.Context())
			}
			_ = m.Close(t.Context()) // after the case "close", this second Close reports the same leases again
		})
	}
}

func TestTrap_T70_CloseWithoutADeadlineEndsByItself(t *testing.T) {
	for _, ttl := range []time.Duration{5 * time.Second, 10 * time.Minute, leasing.Infinite} {
		var out bytes.Buffer
		logger := slog.New(slog.NewTextHandler(&out, nil))
		virtual(t, leasing.Options{Logger: logger}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			forgotten := acquire(t, m, &leasing.AcquireOptions{TTL: ttl})
			synctest.Wait()
			bound := max(20*time.Second, min(forgotten.Remaining(), 10*time.Minute))
			if ttl == leasing.Infinite {
				bound = 30 * time.Second
			}
			start := time.Now()
			err := m.Close(context.Background())
			require.Equal(t, bound, time.Since(start))
			var left *leasing.CloseError
			require.ErrorAs(t, err, &left)
			require.Equal(t, []string{name}, left.InUse)
			require.Zero(t, left.Unreleased)
			require.ErrorIs(t, forgotten.Renew(t.Context()), leasing.ErrLost)
			require.Same(t, err, m.Close(context.Background()), "again")
		})
		require.Contains(t, out.String(), `msg="leasing: Close is waiting" provider=memory waited=2s in_use=`+name)
		require.Contains(t, out.String(), "waited=10s", "again")
	}
}

// The warning and the error of Close name the leases in alphabetical order.
func TestCloseNamesTheLeasesInOrder(t *testing.T) {
	var out bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&out, nil))
	virtual(t, leasing.Options{Logger: logger}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		for _, name := range []string{"b", "c", "a"} {
			l, err := m.Acquire(t.Context(), name)
			require.NoError(t, err)
			defer func() { _ = l.Release(context.Background()) }()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		require.ErrorContains(t, m.Close(ctx), ": a, b, c")
	})
	require.Contains(t, out.String(), `in_use="a, b, c"`)
}

// Once the backend has freed an abandoned claim by itself, Close does not count the clean-up of that claim, even if the clean-up
// was never answered.
func TestCloseDoesNotCountAClaimThatHasRunOut(t *testing.T) {
	virtual(t, leasing.Options{TTL: 30 * time.Second}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, leasing.ErrUnavailable))
		p.Use(leasingtest.LoseReply(leasingtest.Acquire, leasingtest.Always, leasing.ErrUnavailable))
		_, err := m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		time.Sleep(time.Minute)
		require.NoError(t, m.Close(t.Context()))
	})
}

func TestTrap_T70_CloseIsNotNilWhileAReleaseIsUnanswered(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		p.Use(leasingtest.Hang(leasingtest.Release, leasingtest.Always))
		go func() { _ = l.Release(context.Background()) }()
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		err := m.Close(ctx)
		var left *leasing.CloseError
		require.ErrorAs(t, err, &left)
		require.Equal(t, 1, left.Unreleased)
		require.Empty(t, left.InUse)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		p.Clear()
	})
}

// Close waits only until an acquire under way has ended. A claim that the acquire was granted is released.
// An acquire without an answer delays Close for one request's time, not for a TTL.
func TestCloseWaitsForAnAcquire(t *testing.T) {
	for how, answer := range map[string]func(apply func() error) error{
		"held by another": func(func() error) error { return &leasing.HeldError{} },
		"granted":         func(apply func() error) error { return apply() },
	} {
		measured(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
			p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
				if call.Op == leasingtest.Acquire {
					time.Sleep(5 * time.Second)
					return answer(apply)
				}
				return apply()
			})
			start := time.Now()
			go func() { _, _ = m.TryAcquire(context.Background(), name) }()
			time.Sleep(time.Second)
			require.NoError(t, m.Close(context.Background()), how)
			require.Equal(t, 5*time.Second, time.Since(start), how)
			require.Zero(t, r.sum("leasing.active.count", ""), how)
			record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
			require.NoError(t, err)
			require.False(t, record.Held, how)
		})
	}
}

func TestTrap_T71_CloseAfterAnAcquireOnADeadBackend(t *testing.T) {
	for how, fault := range map[string]func(leasingtest.Op) leasingtest.Handler{
		"refuses": func(op leasingtest.Op) leasingtest.Handler {
			return leasingtest.Fail(op, leasingtest.Always, errNetwork)
		},
		"hangs": func(op leasingtest.Op) leasingtest.Handler { return leasingtest.Hang(op, leasingtest.Always) },
	} {
		virtual(t, leasing.Options{TTL: time.Hour, Tuning: leasing.Tuning{RequestTimeout: 3 * time.Second}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			p.Use(fault(leasingtest.Acquire))
			p.Use(fault(leasingtest.Release))
			_, err := m.TryAcquire(t.Context(), name)
			require.Error(t, err)
			time.Sleep(time.Second)
			start := time.Now()
			err = m.Close(context.Background())
			require.LessOrEqual(t, time.Since(start), 3*time.Second+100*time.Millisecond, how)
			var left *leasing.CloseError
			require.ErrorAs(t, err, &left, how)
			require.Equal(t, 1, left.Unreleased, how)
			require.ErrorIs(t, err, leasing.ErrUnavailable, how)
			p.Clear()
		})
	}
}

// refusedDial is the error of a provider that could not connect.
type refusedDial struct{}

func (refusedDial) Error() string        { return "connection refused" }
func (refusedDial) NotApplied() bool     { return true }
func (refusedDial) Is(target error) bool { return target == leasing.ErrUnavailable }

func TestTrap_T71_NothingSentIsNothingToCleanUp(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		remove := p.Use(leasingtest.Fail(leasingtest.Acquire, leasingtest.Always, refusedDial{}))
		_, err := m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		_, err = m.With(leasing.AcquireOptions{WaitLimit: 5 * time.Second}).Acquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		require.Greater(t, p.Count(leasingtest.Acquire), 5, "the wait went on")
		remove()
		l := acquire(t, m, nil)
		p.Use(leasingtest.Fail(leasingtest.Release, 3, refusedDial{}))
		require.NoError(t, l.Release(t.Context()))
		require.Equal(t, 4, p.Count(leasingtest.Release), "a release that was not sent is sent again, and no acquire is cleaned up")
		start := time.Now()
		require.NoError(t, m.Close(t.Context()))
		require.Zero(t, time.Since(start))
	})
}

// A grant that comes after Close has begun is released by its ID alone: a late copy of its acquire may have another token.
func TestAGrantThatCloseOvertakesIsReleasedByItsID(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &releaseTokens{Provider: leasingtest.NewProvider()}
		m, err := leasing.NewManager(p, leasing.Options{})
		require.NoError(t, err)
		closed := make(chan error, 1)
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			err := apply()
			if call.Op == leasingtest.Acquire {
				go func() { closed <- m.Close(context.Background()) }()
				for !m.Health(context.Background()).Closed {
					time.Sleep(time.Millisecond)
				}
			}
			return err
		})
		_, err = m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrClosed)
		require.NoError(t, <-closed)
		require.NotEmpty(t, p.released)
		for _, token := range p.released {
			require.Zero(t, token)
		}
	})
}

// releaseTokens records the tokens of releases.
type releaseTokens struct {
	*leasingtest.Provider
	released []int64
}

func (p *releaseTokens) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	p.released = append(p.released, req.Token)
	return p.Provider.Release(ctx, req)
}
