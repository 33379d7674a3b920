package managersuite

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var realEndingChecks = []managerCheck{
	{"ReleaseReachesTheBackend", func(ctx context.Context, e *suite.Env, m *testManager) {
		get := func() *leasing.Lease { return m.get(e.Name(), longOptions(e)) }
		ended, cancel := context.WithCancel(ctx)
		cancel()
		lease := get()
		m.setFault(releases, func(x *exchange) error {
			e.ErrorIs(context.Cause(lease.Context()), abstractions.ErrReleased, "the work's context, when the release is sent")
			return x.pass()
		})
		e.NoError(lease.Release(ended), "with a context that has ended")
		e.IsFree(lease.Name())
		e.ErrorIs(lease.Err(), abstractions.ErrReleased)
		e.Zero(lease.Remaining())

		// A release is sent again until there is an answer.
		for _, lost := range []fault{lostRequest, lostReply} {
			lease = get()
			m.setFault(releases, onFirst(1, lost))
			e.NoError(lease.Release(ctx), "the backend has answered at last")
			e.GreaterOrEqual(len(m.requests(releases)), 2)
			e.IsFree(lease.Name())
		}

		// A second caller waits for the release that the first caller began.
		lease = get()
		m.setFault(releases, slowRequest(200*time.Millisecond))
		done := begin(e, func() error { return lease.Release(ctx) })
		e.Await("a release is sent", func() bool { return len(m.requests(releases)) > 0 })
		e.NoError(lease.Release(ctx))
		e.IsFree(lease.Name())
		e.NoError(within(e, e.Slack, done, "the first release"))
		e.Len(m.requests(releases), 1)

		// The error of a failed release is returned, and the release is repeated until the backend answers.
		for _, failure := range []error{errNoReply, abstractions.ErrDenied} {
			lease = get()
			m.setFault(releases, refusal(failure))
			caller, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			e.ErrorIs(within(e, e.Slack, begin(e, func() error { return lease.Release(caller) }), "a release whose context has ended"), failure)
			cancel()
			isTaken(e, lease.Name(), "the release has not reached the backend")
			m.setFault(releases, nil)
			awaitFree(e, lease.Name())
		}
		kinds := kindsOf(m.eventLog.events(leasing.EventAcquired, leasing.EventReleased, leasing.EventLost))
		e.NotContains(kinds, leasing.EventLost)
	}},
	{"WorkEndsBeforeTheRelease", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long})
		do := func(ctx context.Context, work func(context.Context, *leasing.Lease) error) error {
			name, returned := e.Name(), false
			m.setFault(releases, func(x *exchange) error {
				e.True(returned, "the function has returned when the release is sent")
				return x.pass()
			})
			err := m.Manager.Do(ctx, name, func(ctx context.Context, lease *leasing.Lease) error {
				defer func() { returned = true }()
				return work(ctx, lease)
			})
			e.IsFree(name)
			return err
		}
		err := do(ctx, func(work context.Context, lease *leasing.Lease) error {
			e.NoError(lease.Release(ctx))
			e.ErrorIs(context.Cause(work), abstractions.ErrReleased)
			isTaken(e, lease.Name(), "the function still works")
			return errMine
		})
		e.ErrorIs(err, errMine)

		caller, cancel := context.WithCancelCause(ctx)
		err = do(caller, func(work context.Context, lease *leasing.Lease) error {
			cancel(errMine)
			select {
			case <-work.Done():
			case <-time.After(e.Slack):
				e.Fail("the caller has left, and the function does not notice")
			}
			e.NoError(lease.Err(), "the lease lives until the function has returned")
			isTaken(e, lease.Name(), "the function still winds up")
			return context.Cause(work)
		})
		e.ErrorIs(err, errMine)

		// The context reports a loss to the function, and Do returns the loss to its caller.
		m.setFault(releases, refusal(abstractions.ErrDenied))
		e.ErrorIs(m.Manager.Do(ctx, e.Name(), func(context.Context, *leasing.Lease) error { return nil }), abstractions.ErrDenied)
		m.setFault(releases, nil)
		err = m.Manager.Do(ctx, e.Name(), func(work context.Context, lease *leasing.Lease) error {
			e.Break(abstractions.BreakRequest{Name: lease.Name(), Immediate: true})
			m.awaitReportedLoss(lease)
			<-work.Done()
			return errMine
		})
		e.ErrorIs(err, errMine)
		e.ErrorIs(err, abstractions.ErrLost)
	}},
	// A lease is renewed while its holder finishes its work.
	{"CloseWaitsForTheHolders", func(ctx context.Context, e *suite.Env, m *testManager) {
		retryOnStall(e, func() error {
			m := manageWithoutBatches(e, e.P)
			lease, err := m.TryAcquire(e.T.Context(), e.Name())
			if err != nil {
				return err
			}
			patient, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			done := begin(e, func() error { return m.Close(patient) })
			m.awaitEnd(lease, e.Slack)
			m.setFault(acquires, nil)
			e.ErrorIs(m.try(ctx, e.Name()), abstractions.ErrClosed, "no new work")
			e.Empty(m.requests(acquires), "no new work")
			e.Pause(e.Short * 5 / 4)
			e.Empty(done, "its holder has not released it yet")
			if _, err := e.Try(e.Peer, e.Request(lease.Name())); err == nil {
				return errors.New("the name is free before its holder has released it")
			}
			if err := lease.Release(ctx); err != nil {
				return err
			}
			e.NoError(within(e, e.Slack, done, "Close, when all has ended"))
			e.IsFree(lease.Name())
			e.Len(m.eventLog.events(leasing.EventReleased), 1)
			return nil
		})

		// A lease that is still in use when Close gives up is left to run out.
		lease := m.get(e.Name(), longOptions(e))
		bounded, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		var left *leasing.CloseError
		e.ErrorAs(within(e, e.Slack, begin(e, func() error { return m.Close(bounded) }), "Close, with a bound"), &left)
		e.Equal([]string{lease.Name()}, left.InUse)
		var lost *abstractions.LostError
		e.ErrorAs(lease.Renew(ctx), &lost)
		e.Equal(abstractions.LostClosed, lost.Reason)
		isTaken(e, lease.Name(), "its holder may still be at work")
	}},
	{"AmbiguousAcquireIsCleanedUp", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true})
		for _, release := range []fault{nil, onFirst(1, lostRequest), onFirst(1, lostReply), onFirst(1, refusal(abstractions.ErrDenied))} {
			name := e.Name()
			m.setFault(acquires, lostReply)
			m.setFault(releases, release)
			e.ErrorIs(m.try(ctx, name), abstractions.ErrUnavailable)
			awaitFree(e, name)
		}

		// The context of TryAcquire and of Acquire ends in the middle of a request that is applied.
		for _, acquire := range []func(context.Context, string) error{m.try, func(ctx context.Context, name string) error {
			return suite.Second(m.Acquire(ctx, name))
		}} {
			name := e.Name()
			ended, cancel := context.WithCancelCause(ctx)
			m.setFault(acquires, func(x *exchange) error {
				_ = x.pass()
				cancel(abstractions.ErrReleased)
				return context.Cause(x.ctx)
			})
			e.Error(acquire(ended, name))
			awaitFree(e, name)
		}

		// An acquire arrives after its caller has left.
		late := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true}, ignoringContexts)
		name, arrived := e.Name(), make(chan struct{})
		late.setFault(acquires, func(x *exchange) error {
			defer close(arrived)
			return slowRequest(200 * time.Millisecond)(x)
		})
		caller, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
		e.Error(late.try(caller, name))
		cancel()
		within(e, e.Slack, arrived, "the request")
		awaitFree(e, name)

		// A copy of an acquire may arrive after the release, so the release is repeated.
		brief := manage(e, e.P, leasing.Options{})
		brief.setFault(acquires, lostRequest)
		e.Error(brief.try(ctx, e.Name()))
		e.Await("a second release of an acquire that may arrive yet", func() bool { return len(brief.requests(releases)) >= 2 })
		acquire, release := brief.requests(acquires)[0].req.(abstractions.AcquireRequest), brief.requests(releases)[1].req.(abstractions.ReleaseRequest)
		e.Equal(acquire.ID, release.ID)

		// Close waits for the clean-up.
		name = e.Name()
		m.setFault(acquires, lostReply)
		m.setFault(releases, onFirst(1, lostRequest))
		e.Error(m.try(ctx, name))
		e.NoError(m.Close(ctx))
		e.IsFree(name)
	}},
	{"OnlyWhatMayBeAppliedIsCleanedUp", func(ctx context.Context, e *suite.Env, m *testManager) {
		holder := e.Take(e.Name())
		e.ErrorIs(m.try(ctx, holder.Req.Name), abstractions.ErrHeld)
		for _, err := range []error{abstractions.ErrDenied, &abstractions.ThrottledError{}, abstractions.ErrInvalid} {
			m.setFault(acquires, refusal(err))
			e.ErrorIs(m.try(ctx, e.Name()), err)
		}
		m.setFault(renews, refusal(abstractions.ErrDenied)) // an adoption
		_, err := m.Adopt(ctx, leasing.Handover{Name: holder.Req.Name, ID: holder.Req.ID, Token: holder.Token()}, leasing.AdoptOptions{})
		e.ErrorIs(err, abstractions.ErrDenied)
		m.setFault(renews, lostReply)
		_, err = m.Adopt(ctx, leasing.Handover{Name: holder.Req.Name, ID: holder.Req.ID, Token: holder.Token()}, leasing.AdoptOptions{})
		e.ErrorIs(err, abstractions.ErrUnavailable)
		e.Pause(e.Short / 10)
		e.Empty(m.requests(releases), "releases of what was not applied, or has another holder")
		e.NoError(m.Close(ctx))
		holder.Renew(e.Long)
	}},
	// The check passes a lease from one manager to another.
	{"HandOverAndAdopt", func(ctx context.Context, e *suite.Env, _ *testManager) {
		retryOnStall(e, func() error {
			giver, receiver := manageWithoutBatches(e, e.P), manageWithoutBatches(e, e.Peer)
			lease, err := giver.TryAcquire(e.T.Context(), e.Name())
			if err != nil {
				return err
			}
			back := make(chan struct{})
			giver.setFault(renews, onFirst(1, func(x *exchange) error {
				defer close(back)
				return slowReply(e.Short / 10)(x)
			}))
			renewed := begin(e, func() error { return lease.Renew(ctx) })
			e.Await("a renewal is under way", func() bool { return len(giver.requests(renews)) > 0 })
			handover, err := lease.HandOver(ctx)
			if err != nil {
				return err
			}
			select {
			case <-back:
			default:
				e.Fail("a renewal is under way when the lease is handed over")
			}
			e.GreaterOrEqual(len(giver.requests(renews)), 2, "HandOver renews, so that nothing of the giver's follows")
			<-renewed
			giver.setFault(renews, nil)
			e.ErrorIs(lease.Err(), abstractions.ErrHandedOver)
			e.Equal(leasing.Handover{Name: lease.Name(), ID: lease.ID(), Token: lease.Token()}, handover)

			adopted, err := receiver.Adopt(ctx, handover, leasing.AdoptOptions{})
			if err != nil {
				return err
			}
			e.Equal([]any{lease.Name(), lease.ID(), lease.Token()}, []any{adopted.Name(), adopted.ID(), adopted.Token()})
			_, err = receiver.Adopt(ctx, handover, leasing.AdoptOptions{})
			e.ErrorIs(err, abstractions.ErrInvalid, "a lease that this manager holds")
			e.Pause(e.Short * 5 / 4)
			if err := adopted.Err(); err != nil {
				return err
			}
			if err := receiver.checkHeld(adopted); err != nil {
				return err
			}
			e.NoError(giver.Close(ctx))
			e.Empty(giver.requests(renews), "requests of the giver")
			e.Empty(giver.requests(releases), "requests of the giver")
			isTaken(e, lease.Name(), "the lease goes on")
			if err := adopted.Release(ctx); err != nil {
				return err
			}
			e.IsFree(lease.Name())
			return nil
		})
	}},
	// In this check the backend does not answer, and one client ignores contexts.
	{"NothingHangs", func(_ context.Context, e *suite.Env, _ *testManager) {
		deaf := func(*exchange) error {
			<-e.T.Context().Done()
			return errNoReply
		}
		for _, c := range []struct {
			with  func(*faultyProvider)
			hangs fault
		}{{ignoringContexts, deaf}, {func(*faultyProvider) {}, noAnswer}} {
			m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true, Tuning: leasing.Tuning{RequestTimeout: time.Second}}, c.with, without(batches))
			var held [3]*leasing.Lease
			for i := range held {
				held[i] = m.getInTime(e.Name())
			}
			lease, renewed, moved := held[0], held[1], held[2]
			for _, v := range []verb{acquires, renews, releases} {
				m.setFault(v, c.hangs)
			}
			e.WaitIdle() // HandOver would not renew a lease that began in the same instant
			calls := map[string]<-chan error{}
			for _, c := range []struct {
				what    string
				bounded bool // by a context, in addition to the manager's limit for a request
				call    func(context.Context) error
			}{
				{"TryAcquire", false, func(ctx context.Context) error { return m.try(ctx, e.Name()) }},
				{"Acquire", true, func(ctx context.Context) error { return suite.Second(m.Acquire(ctx, e.Name())) }},
				{"Adopt", false, func(ctx context.Context) error {
					return suite.Second(m.Adopt(ctx, leasing.Handover{Name: e.Name(), ID: e.Id(), Token: 1}, leasing.AdoptOptions{}))
				}},
				{"Renew", false, renewed.Renew},
				{"Renew, with a bound", true, renewed.Renew},
				{"SetMetadata", true, func(ctx context.Context) error { return renewed.SetMetadata(ctx, map[string]string{"k": "v"}) }},
				{"HandOver", true, func(ctx context.Context) error { return suite.Second(moved.HandOver(ctx)) }},
				{"Release", true, lease.Release},
			} {
				ctx, cancel := context.WithCancel(context.Background())
				if c.bounded {
					ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
				}
				defer cancel()
				calls[c.what] = begin(e, func() error { return c.call(ctx) })
			}
			for what, call := range calls {
				e.Error(within(e, e.Slack, call, what), what)
			}
			ended, cancel := context.WithCancel(context.Background())
			cancel()
			e.Error(within(e, e.Slack, begin(e, func() error { return m.Close(ended) }), "Close"))
		}
	}},
}
