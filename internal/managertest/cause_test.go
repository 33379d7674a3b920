package managertest_test

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// The last attempts before a loss have only milliseconds left, so the last error is their own deadline. The error of the loss
// also contains the backend's last answer, which an operator needs.
func TestTrap_T189_ALossCarriesTheLastAnswer(t *testing.T) {
	unknownCA := fmt.Errorf("%w: %w", leasing.ErrUnavailable, x509.UnknownAuthorityError{})
	for _, answer := range []error{leasing.ErrDenied, &leasing.ThrottledError{RetryAfter: time.Millisecond}, unknownCA} {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			var events journal
			l := acquire(t, m, &leasing.AcquireOptions{Observer: events.observe})
			p.Use(leasingtest.Hang(leasingtest.Renew, leasingtest.Always))
			p.Use(leasingtest.Fail(leasingtest.Renew, 3, answer))
			awaitEnd(t, l, time.Minute)
			requireLost(t, l, leasing.LostExpired)
			require.ErrorIs(t, l.Err(), answer)
			if errors.Is(answer, unknownCA) {
				authority := x509.UnknownAuthorityError{}
				require.ErrorAs(t, l.Err(), &authority)
			}
			require.NotContains(t, l.Err().Error(), "deadline")
			failed := events.ofKind(leasing.EventRenewalFailed)
			last := failed[len(failed)-1].Err
			require.ErrorContains(t, last, "; the last answer was: ")
			require.ErrorContains(t, last, "deadline exceeded")
			require.ErrorIs(t, last, answer)
			require.ErrorIs(t, last, leasing.ErrUnavailable)
		})
	}
}

func TestTrap_T189_ALossWithoutAnyAnswerReportsTheDeadline(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		p.Use(leasingtest.Hang(leasingtest.Renew, leasingtest.Always))
		awaitEnd(t, l, time.Minute)
		require.ErrorIs(t, l.Err(), leasing.ErrUnavailable)
		require.ErrorContains(t, l.Err(), "deadline exceeded")

		// After a success the error of a loss no longer contains an earlier answer.
		p.Clear()
		again := acquire(t, m, nil)
		p.Use(leasingtest.Fail(leasingtest.Renew, 1, leasing.ErrDenied))
		require.ErrorIs(t, again.Renew(t.Context()), leasing.ErrDenied)
		require.NoError(t, again.Renew(t.Context()))
		p.Use(leasingtest.Hang(leasingtest.Renew, leasingtest.Always))
		awaitEnd(t, again, time.Minute)
		require.NotErrorIs(t, again.Err(), leasing.ErrDenied)
	})
}

// A request that ends at its own time limit counts as an outage.
func TestTrap_T190_ARequestsOwnBoundIsAnOutage(t *testing.T) {
	virtual(t, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 3 * time.Second}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		p.Use(leasingtest.Hang(leasingtest.Acquire, leasingtest.Always))
		_, err := m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		require.Equal(t, 1, strings.Count(err.Error(), "backend unavailable"), err)

		l := acquire(t, leasingtest.NewManagerOn(t, leasingtest.NewProvider(), leasing.Options{}), nil)
		require.NoError(t, l.Err())
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = m.TryAcquire(ctx, "another")
		require.ErrorIs(t, err, context.DeadlineExceeded, "the caller's own")
	})
}

// A wait that polls returns ErrHeld only if the name was held at the end of the wait.
func TestTrap_T191_AWaitLooksOnceMoreAtItsEnd(t *testing.T) {
	virtual(t, leasing.Options{Tuning: leasing.Tuning{MinPoll: 30 * time.Second}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		other := leasingtest.NewManagerOn(t, noWakeups{p}, leasing.Options{})
		l, err := other.Acquire(t.Context(), name)
		require.NoError(t, err)
		polling := leasingtest.NewManagerOn(t, noWakeups{p}, leasing.Options{Tuning: leasing.Tuning{MinPoll: time.Second, MaxPoll: 20 * time.Second}})
		time.AfterFunc(9*time.Second, func() { require.NoError(t, l.Release(context.Background())) })
		got, err := polling.With(leasing.AcquireOptions{WaitLimit: 10 * time.Second}).Acquire(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, got.Release(t.Context()))
	})
}

// An answer that shows a later claim of a name proves that the earlier lease is lost.
func TestTrap_T192_AHigherTokenInAnyAnswerEndsTheLease(t *testing.T) {
	for what, show := range map[string]func(t *testing.T, m *leasing.Manager){
		"inspect": func(t *testing.T, m *leasing.Manager) {
			_, err := m.Inspect(t.Context(), name)
			require.NoError(t, err)
		},
		"try acquire": func(t *testing.T, m *leasing.Manager) {
			_, err := m.TryAcquire(t.Context(), name)
			require.ErrorIs(t, err, leasing.ErrHeld)
		},
		"list": func(t *testing.T, m *leasing.Manager) {
			for _, err := range m.List(t.Context(), leasing.ListOptions{}) {
				require.NoError(t, err)
			}
		},
	} {
		virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
			bystander, err := m.Acquire(t.Context(), "another")
			require.NoError(t, err)
			l := acquire(t, m, nil)
			other := leasingtest.NewManagerOn(t, p, leasing.Options{})
			_, err = other.Break(t.Context(), name, leasing.BreakOptions{Immediate: true})
			require.NoError(t, err)
			next, err := other.TryAcquire(t.Context(), name)
			require.NoError(t, err)
			show(t, m)
			requireLost(t, l, leasing.LostTaken)
			require.ErrorContains(t, l.Err(), "has shown token", what)
			require.NoError(t, bystander.Release(t.Context()))
			require.NoError(t, next.Err())
			require.NoError(t, next.Release(t.Context()))
		})
	}
}

// higherTokens, like a Redlock server at times, reports held names with higher tokens than it granted.
type higherTokens struct{ *leasingtest.Provider }

func (h higherTokens) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	r, err := h.Provider.Inspect(ctx, req)
	r.Token++
	return r, err
}

func (h higherTokens) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	g, err := h.Provider.Acquire(ctx, req)
	if held := (*leasing.HeldError)(nil); errors.As(err, &held) {
		shown := *held
		shown.Holder.Token++
		err = &shown
	}
	return g, err
}

// An answer that shows a lease's own claim does not end the lease, whatever token the answer shows.
func TestTrap_T264_ALeaseSurvivesAHigherTokenOfItsOwnClaim(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, _ *leasing.Manager, p *leasingtest.Provider) {
		m := leasingtest.NewManagerOn(t, higherTokens{p}, leasing.Options{})
		l := acquire(t, m, nil)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Greater(t, record.Token, l.Token())
		_, err = m.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.NoError(t, l.Err())
		require.NoError(t, l.Renew(t.Context()))
		require.NoError(t, l.Release(t.Context()))
	})
}

func TestTrap_T192_AManagerThatBreaksItsOwnLeaseKnows(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		_, err := m.Break(t.Context(), name, leasing.BreakOptions{Immediate: true, Actor: "operator", Reason: "stuck"})
		require.NoError(t, err)
		requireLost(t, l, leasing.LostBroken)
		require.ErrorContains(t, l.Err(), `broken by "operator" (stuck)`)
		next := acquire(t, m, nil)
		require.NoError(t, next.Err())

		// After a break with a grace a renewal is sent at once, and its answer reports the break.
		_, err = m.Break(t.Context(), name, leasing.BreakOptions{})
		require.NoError(t, err)
		awaitEnd(t, next, time.Millisecond)
		requireLost(t, next, leasing.LostBroken)
		require.NoError(t, m.Close(t.Context()))
	})
}

// A manager that acquires a name again after another manager broke its lease has only the new lease.
func TestTrap_T192_AGrantEndsAnOlderLeaseOfTheName(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		first := acquire(t, m, nil)
		other := leasingtest.NewManagerOn(t, p, leasing.Options{})
		_, err := other.Break(t.Context(), name, leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		second, err := m.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		requireLost(t, first, leasing.LostTaken)
		require.NoError(t, second.Err())
		require.NoError(t, second.Release(t.Context()))
	})
}

// noWakeups is a provider without wake-ups.
type noWakeups struct{ leasing.Provider }

// A lease that its holder has dropped is renewed until the manager is closed. The log has the name of the lease.
func TestTrap_T193_ADroppedLeaseIsNamed(t *testing.T) {
	options, lines := logged()
	virtual(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		kept, err := m.Acquire(t.Context(), "kept")
		require.NoError(t, err)
		_, err = m.Acquire(t.Context(), "dropped")
		require.NoError(t, err)
		for range 5 {
			time.Sleep(20 * time.Second)
			runtime.GC()
		}
		require.Len(t, lines(), 1)
		require.Contains(t, lines()[0], "a lease was dropped without a release, and is renewed until the manager is closed")
		require.Contains(t, lines()[0], "name=dropped")
		require.NoError(t, kept.Err())
		require.NoError(t, kept.Release(t.Context()))
		require.NoError(t, m.Do(t.Context(), "done", func(ctx context.Context, l *leasing.Lease) error {
			for range 3 {
				time.Sleep(20 * time.Second)
				runtime.GC()
			}
			return nil
		}))
		require.Len(t, lines(), 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.Error(t, m.Close(ctx))
	})
}

// A deadline in the client library, such as that of a dial, is not an answer from the backend.
func TestTrap_T189_ATimeoutOfTheLibraryIsNoAnswer(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		dial := fmt.Errorf("%w: %w", leasing.ErrUnavailable, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded})
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, dial))
		p.Use(leasingtest.Fail(leasingtest.Renew, 3, leasing.ErrDenied))
		awaitEnd(t, l, time.Minute)
		requireLost(t, l, leasing.LostExpired)
		require.ErrorIs(t, l.Err(), leasing.ErrDenied)
		require.NotContains(t, l.Err().Error(), "dial")

		p.Clear()
		busy := acquire(t, m, nil)
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, providerkit.NotInTime("it was not sent")))
		p.Use(leasingtest.Fail(leasingtest.Renew, 3, leasing.ErrDenied))
		awaitEnd(t, busy, time.Minute)
		require.ErrorIs(t, busy.Err(), leasing.ErrDenied, "a request that was not sent is no answer, too")

		p.Clear()
		again := acquire(t, m, nil)
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, dial))
		awaitEnd(t, again, time.Minute)
		require.ErrorIs(t, again.Err(), os.ErrDeadlineExceeded, "there was no other answer")
	})
}
