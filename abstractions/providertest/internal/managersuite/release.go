package managersuite

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var releaseChecks = []managerCheck{
	{"Manager_Trap_T13_AmbiguousAcquireIsCleanedUp", func(ctx context.Context, e *suite.Env, m *testManager) {
		for _, lost := range []fault{lostReply, onFirst(1, lostReply)} {
			m := manage(e, e.P, leasing.Options{})
			name := e.Name()
			m.setFault(acquires, lost)
			e.ErrorIs(m.try(ctx, name), abstractions.ErrUnavailable)
			e.WaitIdle()
			e.IsFree(name)
			e.Pause(e.Short)
			e.GreaterOrEqual(len(m.requests(releases)), 2, "releases, since the acquire may arrive once more")
			begun := time.Now()
			e.NoError(m.Close(ctx))
			e.Less(time.Since(begun), time.Second, "Close, when all was answered")
		}
		// The release is repeated until it is answered, and again later because of late copies.
		name := e.Name()
		m.setFault(acquires, lostReply)
		m.setFault(releases, onFirst(4, lostRequest))
		e.Error(m.try(ctx, name))
		e.Pause(e.Short / 2)
		e.IsFree(name)

		// An acquire is cleaned up whatever the cause of its context's end.
		for _, cause := range []error{&abstractions.LostError{Reason: abstractions.LostTaken}, abstractions.ErrReleased, abstractions.ErrInvalid} {
			name := e.Name()
			ended, cancel := context.WithCancelCause(ctx)
			m.setFault(acquires, func(x *exchange) error {
				_ = x.pass()
				cancel(cause)
				return context.Cause(x.ctx)
			})
			e.Error(m.try(ended, name))
			e.Pause(e.Short / 10)
			e.IsFree(name)
		}

		// An acquire that ignores its context arrives after its caller has left.
		late := manage(e, e.P, leasing.Options{}, ignoringContexts)
		for _, acquire := range []func(context.Context, string) error{late.try, func(ctx context.Context, name string) error {
			_, err := late.Acquire(ctx, name)
			return err
		}} {
			name = e.Name()
			late.setFault(acquires, slowRequest(e.Short*3/2))
			caller, cancel := context.WithTimeout(ctx, e.Short/10)
			e.Error(acquire(caller, name))
			cancel()
			late.setFault(acquires, nil)
			e.Pause(e.Short * 8 / 5)
			e.IsFree(name)
		}

		// Close waits for clean-ups while the backend answers.
		busy := manage(e, e.P, leasing.Options{})
		name = e.Name()
		busy.setFault(acquires, lostReply)
		busy.setFault(releases, onFirst(2, lostRequest))
		e.Error(busy.try(ctx, name))
		e.NoError(busy.Close(ctx))
		e.IsFree(name)
		begun := time.Now()
		dead := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: time.Second}})
		dead.setFault(acquires, lostReply)
		dead.setFault(releases, lostRequest)
		e.Error(dead.try(ctx, e.Name()))
		e.Error(dead.Close(ctx), "the clean-up had no answer")
		e.Less(time.Since(begun), e.Short, "Close waits for a dead backend as for a request")
	}},
	{"Manager_Trap_T188_ADeniedReleaseIsRetried", func(ctx context.Context, e *suite.Env, m *testManager) {
		lease := m.get(e.Name(), nil)
		m.setFault(releases, refusal(abstractions.ErrDenied))
		e.ErrorIs(lease.Release(ctx), abstractions.ErrDenied)
		isTaken(e, lease.Name(), "the release was refused")
		m.setFault(releases, nil)
		e.Pause(2 * time.Second)
		e.IsFree(lease.Name())
	}},
	{"Manager_Trap_T192_AHigherTokenEndsTheLease", func(ctx context.Context, e *suite.Env, m *testManager) {
		lease := m.get(e.Name(), nil)
		e.Break(abstractions.BreakRequest{Name: lease.Name(), Immediate: true})
		next := e.Acquire(e.Peer, e.Request(lease.Name()))
		_, err := m.TryAcquire(ctx, lease.Name())
		e.Held(err)
		m.isLost(lease, abstractions.LostTaken)

		lease = m.get(e.Name(), nil)
		_, err = m.Break(ctx, lease.Name(), leasing.BreakOptions{Immediate: true})
		e.NoError(err)
		m.isLost(lease, abstractions.LostBroken)
		next.Release()
	}},
	{"Manager_Trap_T34_ReleaseReachesTheBackend", func(ctx context.Context, e *suite.Env, m *testManager) {
		ended, cancel := context.WithCancel(ctx)
		cancel()
		lease := m.get(e.Name(), nil)
		e.NoError(lease.Release(ended), "with a context that has ended")
		e.IsFree(lease.Name())
		e.ErrorIs(lease.Err(), abstractions.ErrReleased)
		e.Zero(lease.Remaining())

		lease = m.get(e.Name(), nil)
		m.setFault(releases, onFirst(3, lostRequest))
		e.NoError(lease.Release(ctx), "the backend has answered at last")
		e.IsFree(lease.Name())

		// A second caller waits for the first caller's request.
		lease = m.get(e.Name(), nil)
		m.setFault(releases, slowRequest(time.Second))
		done := begin(e, func() error { return lease.Release(ctx) })
		e.WaitIdle()
		e.NoError(lease.Release(ctx))
		e.IsFree(lease.Name())
		e.NoError(<-done)

		// While the backend does not answer, a Release takes at most the TTL, and one whose
		// context has ended returns almost at once. When the backend answers again the name is freed.
		lease = m.get(e.Name(), nil)
		m.setFault(releases, lostRequest)
		begun := time.Now()
		e.ErrorIs(lease.Release(ctx), abstractions.ErrUnavailable)
		e.LessOrEqual(time.Since(begun), e.Short+time.Second)
		lease = m.get(e.Name(), &leasing.AcquireOptions{TTL: 6 * e.Short})
		begun = time.Now()
		caller, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		e.ErrorIs(lease.Release(caller), abstractions.ErrUnavailable)
		e.LessOrEqual(time.Since(begun), e.Short/2)
		m.setFault(releases, nil)
		e.Pause(e.Short / 2)
		e.IsFree(lease.Name())

		// The backend's error is returned.
		lease = m.get(e.Name(), nil)
		m.setFault(releases, refusal(abstractions.ErrDenied))
		begun = time.Now()
		e.ErrorIs(lease.Release(ctx), abstractions.ErrDenied)
		e.Less(time.Since(begun), time.Second, "the caller waits for no other answer")
	}},
	{"Manager_Trap_T35_WorkEndsBeforeTheRelease", func(ctx context.Context, e *suite.Env, m *testManager) {
		var lease *leasing.Lease
		over := func(x *exchange) error {
			e.ErrorIs(context.Cause(lease.Context()), abstractions.ErrReleased, "the work's context, when the release is sent")
			return x.pass()
		}
		lease = m.get(e.Name(), nil)
		m.setFault(releases, over)
		e.NoError(lease.Release(ctx))
		returned := false
		m.setFault(releases, func(x *exchange) error {
			e.True(returned, "the function has returned when the release is sent")
			return x.pass()
		})
		name := e.Name()
		e.NoError(m.Manager.Do(ctx, name, func(work context.Context, l *leasing.Lease) error {
			e.NoError(l.Release(ctx))
			e.ErrorIs(context.Cause(work), abstractions.ErrReleased)
			e.Pause(time.Second)
			isTaken(e, name, "the function still works")
			returned = true
			return nil
		}))
		e.IsFree(name)
	}},
	// The check also tests that the function's context ends after a loss, and when the caller leaves.
	{"Manager_Trap_T36_DoReportsAllThatFailed", func(ctx context.Context, e *suite.Env, m *testManager) {
		m.setFault(releases, refusal(abstractions.ErrDenied))
		err := m.Manager.Do(ctx, e.Name(), func(context.Context, *leasing.Lease) error { return errMine })
		e.ErrorIs(err, errMine)
		e.ErrorIs(err, abstractions.ErrDenied)
		m.setFault(releases, nil)
		m.setFault(renews, refusal(&abstractions.LostError{Reason: abstractions.LostGone}))
		err = m.Manager.Do(ctx, e.Name(), func(work context.Context, _ *leasing.Lease) error {
			<-work.Done()
			return errMine
		})
		e.ErrorIs(err, errMine)
		e.ErrorIs(err, abstractions.ErrLost)
		m.setFault(renews, nil)
		caller, cancel := context.WithCancelCause(ctx)
		name := e.Name()
		err = m.Manager.Do(caller, name, func(work context.Context, _ *leasing.Lease) error {
			cancel(errMine)
			select {
			case <-work.Done():
			case <-time.After(time.Second):
				e.Fail("the caller has left, and the function does not notice")
			}
			return context.Cause(work)
		})
		e.ErrorIs(err, errMine)
		e.IsFree(name)
		name = e.Name()
		e.Panics(func() {
			_ = m.Manager.Do(ctx, name, func(context.Context, *leasing.Lease) error { panic("the function") })
		})
		e.IsFree(name)
	}},
	// In this check a second copy of an acquire gets the lease, which is
	// released while the first copy is still in flight.
	{"Manager_Trap_T56_ReleaseIsRepeatedAgainstLateCopies", func(ctx context.Context, e *suite.Env, m *testManager) {
		m.setFault(acquires, onFirst(1, lostRequest))
		lease, err := m.Acquire(ctx, e.Name())
		e.NoError(err)
		m.setFault(releases, nil)
		e.NoError(lease.Release(ctx))
		e.Pause(e.Short)
		e.GreaterOrEqual(len(m.requests(releases)), 2, "releases, since the first request may arrive yet")
		id := lease.ID()
		for _, acquire := range m.requests(acquires) {
			e.Equal(id, acquire.req.(abstractions.AcquireRequest).ID, "one claim has one ID, over all its requests")
		}
	}},
	{"Manager_Trap_T59_RenewedUntilTheWorkHasEnded", func(_ context.Context, e *suite.Env, m *testManager) {
		caller, cancel := context.WithCancel(e.T.Context())
		name := e.Name()
		err := m.Manager.Do(caller, name, func(work context.Context, lease *leasing.Lease) error {
			cancel()
			e.NoError(lease.Release(work))
			<-work.Done()
			e.Pause(3 * e.Short)
			isTaken(e, name, "the function still cleans up")
			return nil
		})
		e.NoError(err)
		e.IsFree(name)
	}},
	{"Manager_Trap_T70_CloseEndsAndSaysWhatItLeaves", func(ctx context.Context, e *suite.Env, m *testManager) {
		lease := m.get(e.Name(), nil)
		patient, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		done := begin(e, func() error { return m.Close(patient) })
		e.WaitIdle()
		e.ErrorIs(lease.Context().Err(), context.Canceled, "Close notifies the holders")
		m.setFault(acquires, nil)
		e.ErrorIs(m.try(ctx, e.Name()), abstractions.ErrClosed, "no new work")
		e.Empty(m.requests(acquires), "no new work")
		e.Pause(4 * e.Short)
		isTaken(e, lease.Name(), "its holder has not released it yet")
		e.NoError(lease.Release(ctx))
		e.NoError(within(e, time.Second, done, "Close, when all has ended"))
		e.IsFree(lease.Name())
		e.Len(m.events(leasing.EventReleased), 1)

		// A lease that is still in use when Close gives up is left to run out.
		m = manage(e, e.P, leasing.Options{})
		lease = m.get(e.Name(), nil)
		bounded, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		var left *leasing.CloseError
		e.ErrorAs(m.Close(bounded), &left)
		e.Equal([]string{lease.Name()}, left.InUse)
		var lost *abstractions.LostError
		e.ErrorAs(lease.Renew(ctx), &lost)
		e.Equal(abstractions.LostClosed, lost.Reason)
		isTaken(e, lease.Name(), "its holder may still be at work")
		e.Pause(e.Short + e.Caps.Lateness.After(e.Short))
		e.IsFree(lease.Name())

		m = manage(e, e.P, leasing.Options{})
		m.get(e.Name(), nil)
		e.Error(within(e, 4*e.Short, begin(e, func() error { return m.Close(context.WithoutCancel(ctx)) }), "Close, with a lease that was forgotten"))

		// A lost lease does not delay Close.
		m = manage(e, e.P, leasing.Options{})
		m.setFault(renews, refusal(&abstractions.LostError{Reason: abstractions.LostGone}))
		e.Error(m.get(e.Name(), nil).Renew(ctx))
		begun := time.Now()
		e.NoError(m.Close(ctx))
		e.Less(time.Since(begun), time.Second)
	}},
	// In this check the clean-ups of other names hang, and occupy every worker for clean-ups.
	{"Manager_Trap_T94_AWaiterWaitsForACleanUpOfItsOwnName", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m, name := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short}}), e.Name()
		m.setFault(releases, noAnswer)
		m.setFault(acquires, lostReply)
		for range 20 {
			_, err := m.With(leasing.AcquireOptions{TTL: e.Long}).TryAcquire(ctx, e.Name())
			e.Error(err)
		}
		m.setFault(acquires, onFirst(1, noAnswer))
		caller, cancel := context.WithTimeout(ctx, e.Short/10)
		defer cancel()
		_, err := m.Acquire(caller, name)
		e.ErrorIs(err, context.DeadlineExceeded)
		begun := time.Now()
		_, err = m.Acquire(ctx, name)
		e.NoError(err)
		e.LessOrEqual(time.Since(begun), e.Short, "until a claim that was given up is over by itself")
	}},
	{"Manager_Trap_T97_AnAcquireThatOutlastsCloseKeepsNothing", func(ctx context.Context, e *suite.Env, m *testManager) {
		name := e.Name()
		m.setFault(acquires, slowRequest(e.Short/2))
		result := begin(e, func() error { return m.try(ctx, name) })
		e.WaitIdle()
		caller, cancel := context.WithTimeout(ctx, time.Millisecond)
		defer cancel()
		_ = m.Close(caller)
		e.ErrorIs(<-result, abstractions.ErrClosed)
		e.IsFree(name)
	}},
	{"Manager_Trap_T71_WhatWasNotAppliedNeedsNoCleanUp", func(ctx context.Context, e *suite.Env, m *testManager) {
		holder := e.Take(e.Name())
		e.ErrorIs(m.try(ctx, holder.Req.Name), abstractions.ErrHeld)
		m.setFault(acquires, refusal(abstractions.ErrDenied))
		e.ErrorIs(m.try(ctx, e.Name()), abstractions.ErrDenied)
		m.setFault(acquires, refusal(&abstractions.ThrottledError{}))
		e.ErrorIs(m.try(ctx, e.Name()), abstractions.ErrThrottled)
		e.Pause(e.Short)
		e.Empty(m.requests(releases), "releases of what was not applied")
		begun := time.Now()
		e.NoError(m.Close(ctx))
		e.Less(time.Since(begun), time.Second)
	}},
	// The check passes a lease from one manager to another.
	{"Manager_HandOver", func(ctx context.Context, e *suite.Env, _ *testManager) {
		giver, receiver := manage(e, e.P, leasing.Options{}), manage(e, e.Peer, leasing.Options{})
		lease := giver.get(e.Name(), nil)
		e.Pause(e.Short / 4)
		giver.setFault(renews, slowReply(time.Second))
		renewed := begin(e, func() error { return lease.Renew(ctx) })
		e.WaitIdle()
		handover, err := lease.HandOver(ctx)
		e.NoError(err)
		<-renewed
		for _, renewal := range giver.requests(renews) {
			e.GreaterOrEqual(time.Since(renewal.at), time.Second, "no renewal is under way when the lease is handed over")
		}
		e.GreaterOrEqual(len(giver.requests(renews)), 2, "HandOver renews, so that nothing of the giver's follows")
		giver.setFault(renews, nil)
		e.ErrorIs(lease.Err(), abstractions.ErrHandedOver)
		isTaken(e, lease.Name(), "the lease goes on")

		// HandOver also waits for a renewal that was sent in the instant in which the lease began.
		fresh, begun, underWay := giver.get(e.Name(), nil), time.Now(), make(chan struct{})
		giver.setFault(renews, onFirst(1, func(x *exchange) error {
			close(underWay)
			return slowReply(time.Second)(x)
		}))
		renewed = begin(e, func() error { return fresh.Renew(ctx) })
		<-underWay
		_, err = fresh.HandOver(ctx)
		e.NoError(err)
		e.Equal(time.Second, time.Since(begun), "a renewal is under way")
		<-renewed
		giver.setFault(renews, nil)

		// A failed adoption does not affect the holder of the lease.
		receiver.setFault(renews, lostRequest)
		_, err = receiver.Adopt(ctx, handover, leasing.AdoptOptions{})
		e.ErrorIs(err, abstractions.ErrUnavailable)
		e.Pause(e.Short / 10)
		isTaken(e, lease.Name(), "the lease goes on")
		// Of two concurrent adoptions one is refused before it sends anything.
		receiver.setFault(renews, slowReply(time.Second))
		var adopted *leasing.Lease
		done := begin(e, func() (err error) {
			adopted, err = receiver.Adopt(ctx, handover, leasing.AdoptOptions{})
			return err
		})
		e.WaitIdle()
		_, err = receiver.Adopt(ctx, handover, leasing.AdoptOptions{})
		e.ErrorIs(err, abstractions.ErrInvalid)
		e.NoError(<-done)
		e.Len(receiver.requests(renews), 1)
		receiver.setFault(renews, nil)
		e.Equal(lease.Token(), adopted.Token())
		e.Pause(2 * e.Short)
		receiver.isAlive(adopted)
		e.Empty(giver.requests(renews), "requests of the giver")
		e.Empty(giver.requests(releases), "requests of the giver")
		e.NoError(adopted.Release(ctx))
		e.IsFree(lease.Name())
	}},
}

var errMine = errors.New("the function's own error")
