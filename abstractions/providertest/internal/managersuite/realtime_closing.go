package managersuite

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// checkClose checks the error of a Close that gives up: its cause, and the claims and leases that Close
// leaves.
func (m *testManager) checkClose(ctx context.Context, why error, unreleased int, inUse ...string) {
	var left *leasing.CloseError
	err := within(m.e, m.e.Short+m.e.Slack, begin(m.e, func() error { return m.Close(ctx) }), "Close")
	checkError(m.e, err, "close", "")
	m.e.ErrorAs(err, &left)
	slices.Sort(inUse)
	m.e.Equal(inUse, left.InUse, "leases that are still in use")
	m.e.Equal(unreleased, left.Unreleased, "claims whose release was not answered")
	if why != nil {
		m.e.ErrorIs(err, why)
	}
	m.e.Equal(err, m.Close(m.e.T.Context()), "a later Close")
}

// checkClosed checks the errors of a lease that was in use when Close gave up.
func (m *testManager) checkClosed(lease *leasing.Lease) {
	var lost *abstractions.LostError
	m.e.ErrorIs(lease.Err(), abstractions.ErrClosed)
	m.e.ErrorAs(lease.Renew(m.e.T.Context()), &lost)
	m.e.Equal(abstractions.LostClosed, lost.Reason)
	m.e.Zero(lease.Remaining())
}

var realClosingChecks = []managerCheck{
	// The check closes a manager that holds leases, is releasing a lease, and is cleaning up two claims.
	{"CloseSaysWhatItLeaves", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true})
		second, first, releasing := m.get(e.Name(), nil), m.get(e.Name(), nil), m.get(e.Name(), nil)
		m.setFault(releases, lostRequest)
		m.setFault(acquires, lostReply)
		for range 2 {
			e.ErrorIs(m.try(ctx, e.Name()), abstractions.ErrUnavailable)
		}
		released := begin(e, func() error { return releasing.Release(ctx) })
		e.Await("a release is sent", func() bool { return len(m.requests(releases)) >= 3 })
		bounded, cancel := context.WithCancelCause(ctx)
		closed := begin(e, func() error { return m.Close(ctx) })
		m.awaitEnd(first, e.Slack)
		e.Empty(closed, "leases are in use")
		cancel(errMine)
		checkError(e, within(e, e.Slack, begin(e, func() error { return m.Close(bounded) }), "a second Close, whose context has ended"), "close", "", errMine)

		// The context of the first Close decides.
		other := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true})
		mine, theirs, ending := other.get(e.Name(), nil), other.get(e.Name(), nil), other.get(e.Name(), nil)
		other.setFault(releases, lostRequest)
		other.setFault(acquires, lostReply)
		e.ErrorIs(other.try(ctx, e.Name()), abstractions.ErrUnavailable)
		goesOn := begin(e, func() error { return ending.Release(ctx) })
		e.Await("a release is sent", func() bool { return ending.Err() != nil && len(other.requests(releases)) >= 2 })
		other.checkClose(bounded, errMine, 2, mine.Name(), theirs.Name())
		for _, lease := range []*leasing.Lease{mine, theirs} {
			other.checkClosed(lease)
			isTaken(e, lease.Name(), "its holder may still be at work")
		}
		other.setFault(releases, nil)
		e.ErrorIs(mine.Release(ctx), abstractions.ErrLost)
		awaitFree(e, mine.Name()) // its holder has left
		e.NoError(within(e, 2*e.Slack, goesOn, "a release that Close has left"))

		m.setFault(releases, nil)
		e.NoError(first.Release(ctx))
		e.NoError(second.Release(ctx))
		e.NoError(within(e, e.Slack, released, "a release that was answered at last"))
		e.NoError(within(e, e.Slack, closed, "the first Close, when all has ended"))
	}},
	{"CloseWaitsForNoAnswerForLong", func(ctx context.Context, e *suite.Env, _ *testManager) {
		bound := 300 * time.Millisecond
		for what, prepare := range map[string]func(m *testManager){
			"a clean-up": func(m *testManager) {
				m.setFault(acquires, lostReply)
				e.ErrorIs(m.try(ctx, e.Name()), abstractions.ErrUnavailable)
			},
			"a release": func(m *testManager) {
				lease := m.getInTime(e.Name())
				ended, cancel := context.WithCancel(ctx)
				cancel()
				e.Error(lease.Release(ended))
			},
		} {
			m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true, Tuning: leasing.Tuning{RequestTimeout: bound}})
			m.setFault(releases, lostRequest)
			prepare(m)
			begun := time.Now()
			m.checkClose(context.WithoutCancel(ctx), abstractions.ErrUnavailable, 1)
			e.GreaterOrEqual(time.Since(begun), bound, "Close waits for %s for Tuning.RequestTimeout", what)
			m.setFault(releases, nil)
			e.Pause(bound)
			e.Empty(m.requests(releases), "requests after Close")
		}
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true, Tuning: leasing.Tuning{RequestTimeout: bound}})
		m.setFault(releases, refusal(abstractions.ErrDenied))
		e.ErrorIs(m.getInTime(e.Name()).Release(ctx), abstractions.ErrDenied)
		m.checkClose(context.WithoutCancel(ctx), abstractions.ErrDenied, 1)
	}},
	{"TheLeaseOutlivesItsCaller", func(ctx context.Context, e *suite.Env, m *testManager) {
		for _, acquire := range []func(context.Context, string) (*leasing.Lease, error){m.With(*longOptions(e)).Acquire, m.With(*longOptions(e)).TryAcquire} {
			caller, cancel := context.WithTimeout(context.WithValue(ctx, contextKey{}, "value"), time.Hour)
			before := time.Now()
			lease, err := acquire(caller, e.Name())
			e.NoError(err)
			after := time.Now()
			work := lease.Context()
			cancel()
			e.NoError(work.Err(), "the caller's context has ended")
			e.NoError(lease.Context().Err(), "the caller's context has ended")
			m.isAlive(lease)
			_, bounded := work.Deadline()
			e.False(bounded, "the lease does not keep the deadline of the caller's context")
			e.Equal("value", work.Value(contextKey{}), "the lease keeps the values of the caller's context")
			e.False(lease.AcquiredAt().Before(before.Add(-time.Millisecond)) || lease.AcquiredAt().After(after.Add(time.Millisecond)), "AcquiredAt")
			record := e.Inspect(lease.Name())
			e.Equal([]any{leasing.FingerprintOf(lease.ID()), lease.Owner(), lease.TTL()}, []any{record.Fingerprint, record.Owner, record.TTL})
			e.NotEmpty(lease.Owner(), "the default owner")
			e.Zero(lease.Renewals())
			e.NoError(lease.Renew(ctx))
			e.Equal(1, lease.Renewals())
			e.NoError(lease.Release(ctx))
			e.ErrorIs(context.Cause(work), abstractions.ErrReleased)
			e.Equal(work, lease.Context())
		}
		other := manage(e, e.P, leasing.Options{TTL: e.Long})
		e.NotEqual(other.get(e.Name(), nil).Owner(), m.get(e.Name(), nil).Owner(), "managers of one process have different owners")
	}},
	// In this check the first of several callers leaves while the renewal is under way.
	{"CallersShareARenewal", func(ctx context.Context, e *suite.Env, m *testManager) {
		lease, sent, answer := m.get(e.Name(), longOptions(e)), make(chan struct{}), make(chan struct{})
		m.setFault(renews, onFirst(1, func(x *exchange) error {
			close(sent)
			<-answer
			return lostReply(x)
		}))
		caller, cancel := context.WithCancelCause(ctx)
		leaves := begin(e, func() error { return lease.Renew(caller) })
		within(e, e.Slack, sent, "a renewal")
		joins := begin(e, func() error { return lease.Renew(ctx) })
		cancel(errMine)
		checkError(e, within(e, e.Slack, leaves, "a caller whose context has ended"), "renew", lease.Name(), errMine)
		checkError(e, within(e, e.Slack, begin(e, func() error { return lease.Renew(caller) }), "a caller whose context has ended"), "renew", lease.Name(), errMine)
		e.Pause(20 * time.Millisecond)
		e.Empty(joins, "the renewal is under way")
		e.Len(m.requests(renews), 1, "requests for a lease at a time")
		close(answer)
		e.ErrorIs(within(e, e.Slack, joins, "a caller who joined the renewal"), abstractions.ErrUnavailable)
		e.NoError(lease.Renew(ctx))
		e.Len(m.requests(renews), 2)
		e.Equal(1, lease.Renewals())
	}},
	{"DoReturnsWhatFailed", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long})
		name := e.Name()
		e.Panics(func() {
			_ = m.Manager.Do(ctx, name, func(context.Context, *leasing.Lease) error { panic("the function") })
		})
		e.IsFree(name)
		nothing := func(context.Context, *leasing.Lease) error { return nil }
		e.NoError(m.Manager.TryDo(ctx, name, nothing))
		checkInvalid(e, "fn", m.Manager.Do(ctx, name, nil))
		holder := e.Take(name)
		called := false
		e.ErrorIs(m.Manager.TryDo(ctx, name, func(context.Context, *leasing.Lease) error {
			called = true
			return nil
		}), abstractions.ErrHeld)
		e.False(called, "the function is not called without a lease")
		holder.Release()

		// A Do within a Do of the same name waits for itself. Inside Do a lease can't be handed
		// over.
		e.ErrorIs(m.Manager.Do(ctx, name, func(work context.Context, lease *leasing.Lease) error {
			checkInvalid(e, "lease", handOver(work, lease))
			caller, cancel := context.WithTimeout(work, 100*time.Millisecond)
			defer cancel()
			err := m.Manager.Do(caller, name, nothing)
			e.True(heldBy(e, err).ByThisManager, "the holder is one of the manager's own")
			e.ErrorIs(err, context.DeadlineExceeded)
			m.isAlive(lease)
			return errMine
		}), errMine)
		awaitFree(e, name)

		// The context reports to the function that the manager is closed, and Close waits until the
		// function has returned.
		finished := false
		started := make(chan *leasing.Lease, 1)
		worked := begin(e, func() error {
			return m.Manager.Do(ctx, name, func(work context.Context, lease *leasing.Lease) error {
				started <- lease
				<-work.Done()
				isTaken(e, name, "the function still winds up")
				finished = true
				return context.Cause(work)
			})
		})
		within(e, e.Slack, started, "the function")
		e.NoError(within(e, e.Slack, begin(e, func() error { return m.Close(ctx) }), "Close"))
		e.True(finished, "Close waits for each Do to return")
		e.ErrorIs(within(e, e.Slack, worked, "Do"), abstractions.ErrClosed)
		e.IsFree(name)
	}},
}

var realTrustedCloseChecks = []managerCheck{
	// In this check the holder does not release its lease, and Close has no deadline.
	{"CloseEndsWithTheTrust", func(ctx context.Context, e *suite.Env, _ *testManager) {
		log := newLogHandler()
		request := 1300 * time.Millisecond
		m := manage(e, e.P, leasing.Options{TTL: e.Short, Logger: slog.New(log), Tuning: leasing.Tuning{RequestTimeout: request}}, without(batches))
		lease := m.getInTime(e.Name())
		begun := time.Now()
		left := lease.Remaining()
		m.checkClose(context.WithoutCancel(ctx), nil, 0, lease.Name())
		took := time.Since(begun)
		e.GreaterOrEqual(took, min(2*request, left), "Close waits for holders")
		e.GreaterOrEqual(took, 2*request)
		e.NotEmpty(log.warnings("in_use", lease.Name()), "a warning after two seconds")
		m.setFault(renews, nil)
		e.Pause(e.Short * 3 / 4)
		e.Empty(m.requests(renews), "a lease that Close left is no longer renewed")
		m.checkClosed(lease)
	}},
}
