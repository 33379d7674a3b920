package managersuite

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// checkError requires that err names the failed call and matches all of the causes.
func checkError(e *suite.Env, err error, op, name string, causes ...error) {
	var where *leasing.Error
	e.ErrorAs(err, &where, "%s %q", op, name)
	e.Equal([]string{op, e.Caps.Provider, name}, []string{where.Op, where.Provider, where.Name})
	for _, cause := range causes {
		e.ErrorIs(err, cause, op)
	}
}

// handOver calls HandOver, and returns only the error.
func handOver(ctx context.Context, lease *leasing.Lease) error {
	return suite.Second(lease.HandOver(ctx))
}

var realErrorChecks = []managerCheck{
	{"ErrorsNameTheCallAndItsCause", func(ctx context.Context, e *suite.Env, m *testManager) {
		adoption := leasing.Handover{Name: e.Name(), ID: e.Id(), Token: 1}
		for _, kind := range []error{abstractions.ErrUnavailable, abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp} {
			lease := m.get(e.Name(), longOptions(e))
			name := lease.Name()
			e.WaitIdle() // HandOver would not renew a lease that began in the same instant
			for _, v := range []verb{acquires, renews, releases, inspects, breaks} {
				m.setFault(v, refusal(fmt.Errorf("%w: %w", kind, errMine)))
			}
			for _, c := range []struct {
				op, name string
				err      error
			}{
				{"acquire", name, m.try(ctx, name)},
				{"adopt", adoption.Name, suite.Second(m.Adopt(ctx, adoption, leasing.AdoptOptions{}))},
				{"inspect", name, suite.Second(m.Inspect(ctx, name))},
				{"break", name, suite.Second(m.Break(ctx, name, leasing.BreakOptions{}))},
				{"renew", name, lease.Renew(ctx)},
				{"renew", name, lease.SetMetadata(ctx, map[string]string{"k": "v"})},
				{"renew", name, handOver(ctx, lease)},
			} {
				checkError(e, c.err, c.op, c.name, kind, errMine)
				e.NotErrorIs(c.err, abstractions.ErrLost)
			}
			m.isAlive(lease)
			for _, v := range []verb{acquires, renews, inspects, breaks} {
				m.setFault(v, nil)
			}
			caller, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			checkError(e, within(e, e.Slack, begin(e, func() error { return lease.Release(caller) }), "Release"), "release", name, kind, errMine)
			cancel()
			m.setFault(releases, nil)
		}
	}},
	// The check inspects leases that have ended in different ways.
	{"AnEndedLeaseReportsHowItEnded", func(ctx context.Context, e *suite.Env, m *testManager) {
		over := func(lease *leasing.Lease, want error) {
			for _, sentinel := range []error{abstractions.ErrReleased, abstractions.ErrHandedOver, abstractions.ErrClosed, abstractions.ErrLost} {
				for what, err := range map[string]error{"Err": lease.Err(), "the context's cause": context.Cause(lease.Context())} {
					e.Equal(sentinel == want, errors.Is(err, sentinel), "%s, of a lease that ended as %v: %v", what, want, err)
				}
			}
			e.Zero(lease.Remaining())
			checkError(e, lease.Renew(ctx), "renew", lease.Name(), want)
			checkError(e, handOver(ctx, lease), "hand over", lease.Name(), want)
			e.ErrorIs(lease.SetMetadata(ctx, nil), want)
		}
		m.setFault(renews, nil)
		released, underWay := m.get(e.Name(), longOptions(e)), m.get(e.Name(), longOptions(e))
		e.NoError(released.Release(ctx))
		over(released, abstractions.ErrReleased)
		sent, answer := make(chan struct{}), make(chan struct{})
		m.setFault(releases, func(x *exchange) error {
			close(sent)
			<-answer
			return x.pass()
		})
		done := begin(e, func() error { return underWay.Release(ctx) })
		within(e, e.Slack, sent, "a release")
		over(underWay, abstractions.ErrReleased)
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errMine)
		checkError(e, underWay.Release(ended), "release", underWay.Name(), errMine)
		close(answer)
		e.NoError(within(e, e.Slack, done, "a release"))
		m.setFault(releases, nil)
		e.Empty(m.requests(renews), "requests for a lease that has ended")

		handedOver := m.get(e.Name(), longOptions(e))
		e.NoError(handOver(ctx, handedOver))
		over(handedOver, abstractions.ErrHandedOver)
		_ = handedOver.Release(ctx)
		isTaken(e, handedOver.Name(), "it was handed over")

		lost := m.get(e.Name(), longOptions(e))
		m.setFault(renews, refusal(&abstractions.LostError{Reason: abstractions.LostTaken}))
		e.ErrorIs(lost.Renew(ctx), abstractions.ErrLost)
		over(lost, abstractions.ErrLost)
		checkError(e, lost.Release(ctx), "release", lost.Name(), abstractions.ErrLost)
		m.setFault(renews, nil)

		closed := m.get(e.Name(), longOptions(e))
		done = begin(e, func() error { return m.Close(ctx) })
		m.awaitEnd(closed, e.Slack)
		e.ErrorIs(closed.Err(), abstractions.ErrClosed)
		e.NoError(closed.Renew(ctx), "the lease is held until its holder has released it")
		e.NoError(closed.Release(ctx))
		e.NoError(within(e, e.Slack, done, "Close"))
		e.ErrorIs(closed.Err(), abstractions.ErrClosed)
	}},
	{"AGrantThatComesTooLateIsNone", func(ctx context.Context, e *suite.Env, _ *testManager) {
		brief := suite.Grantable(max(e.Caps.MinTTL, 300*time.Millisecond), e.Caps)
		for _, with := range []func(*faultyProvider){ignoringContexts, func(*faultyProvider) {}} {
			m := manage(e, e.P, leasing.Options{TTL: brief, NoAutoRenew: true, Tuning: leasing.Tuning{RequestTimeout: 10 * brief}}, with)
			name, back := e.Name(), make(chan struct{})
			m.setFault(acquires, func(x *exchange) error {
				defer close(back)
				x.ctx = context.WithoutCancel(x.ctx)
				return slowReply(brief)(x)
			})
			_, err := m.TryAcquire(ctx, name)
			e.ErrorIs(err, abstractions.ErrUnavailable, "a grant whose trust has ended")
			within(e, e.Slack+brief, back, "the reply")
			awaitFree(e, name)
			e.NoError(m.Close(ctx))
			e.Empty(m.eventLog.events(leasing.EventAcquired))
		}
	}},
	// In this check renewals hang and ignore their contexts.
	{"NothingFollowsAHandOver", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true, Tuning: leasing.Tuning{RequestTimeout: 100 * time.Millisecond}}, ignoringContexts)
		lease := m.getInTime(e.Name())
		for range 2 {
			hangs, back := blockedCalls(e)
			m.setFault(renews, onFirst(1, hangs))
			e.ErrorIs(within(e, e.Slack, begin(e, func() error { return lease.Renew(ctx) }), "Renew"), abstractions.ErrUnavailable)
			e.ErrorIs(handOver(ctx, lease), abstractions.ErrUnavailable, "HandOver, beside a request that has not returned")
			m.isAlive(lease)
			close(back)
		}
		retryUnavailable(e, "HandOver", func() error { return handOver(ctx, lease) })
		e.ErrorIs(lease.Err(), abstractions.ErrHandedOver)
		isTaken(e, lease.Name(), "the lease goes on")
	}},
	// In this check batches hang and ignore their contexts. One lease is in two of the batches, each time
	// together with a different lease.
	{"NothingFollowsAHandOverOfABatch", func(ctx context.Context, e *suite.Env, _ *testManager) {
		suite.Ability[abstractions.BatchRenewer](e, e.P)
		cadence := time.Second / 2
		retryOnStall(e, func() error {
			m := manage(e, e.P, leasing.Options{TTL: e.Long, RenewCadence: cadence, Tuning: leasing.Tuning{RequestTimeout: 100 * time.Millisecond}}, ignoringContexts)
			lease := m.getInTime(e.Name())
			for range 2 {
				hangs, back := blockedCalls(e)
				both := []*leasing.Lease{lease, m.getInTime(e.Name())}
				errs := make([]error, len(both))
				suite.SideBySide(len(both), func(i int) { errs[i] = both[i].Renew(ctx) }) // so that both are due at about the same time
				if err := errors.Join(errs...); err != nil {
					return err
				}
				m.setFault(batches, onFirst(1, hangs))
				e.Pause(2 * cadence)
				if len(m.requests(batches)) == 0 {
					return errors.New("there was no batch")
				}
				e.ErrorIs(handOver(ctx, lease), abstractions.ErrUnavailable, "HandOver, beside a batch that has not returned")
				m.isAlive(lease)
				close(back)
				retryUnavailable(e, "HandOver", func() error { return handOver(ctx, both[1]) })
			}
			retryUnavailable(e, "HandOver", func() error { return handOver(ctx, lease) })
			return nil
		})
	}},
	// In this check earlier requests for the lease hang.
	{"AProviderThatHangsIsAskedNoMore", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true, Tuning: leasing.Tuning{RequestTimeout: 100 * time.Millisecond}}, ignoringContexts)
		lease := m.getInTime(e.Name())
		hangs, back := blockedCalls(e)
		m.setFault(renews, hangs)
		for range 4 {
			checkError(e, within(e, e.Slack, begin(e, func() error { return lease.Renew(ctx) }), "Renew"), "renew", lease.Name(), abstractions.ErrUnavailable)
		}
		e.Less(len(m.requests(renews)), 4, "requests beside earlier ones that hang")
		e.NoError(lease.Err())
		m.setFault(renews, nil)
		close(back)
		retryUnavailable(e, "a provider that hangs no more", func() error { return lease.Renew(ctx) })
		e.NoError(lease.Release(ctx))
		e.IsFree(lease.Name())
	}},
	{"NothingWorksAfterClose", func(ctx context.Context, e *suite.Env, m *testManager) {
		lease := m.get(e.Name(), longOptions(e))
		e.NoError(lease.Release(ctx))
		e.NoError(m.Close(ctx))
		e.NoError(m.Close(ctx), "Close may be called again")
		for _, v := range []verb{acquires, renews, releases, inspects, breaks} {
			m.setFault(v, nil)
		}
		name := e.Name()
		for _, c := range []struct {
			op  string
			err error
		}{
			{"acquire", m.try(ctx, name)},
			{"acquire", suite.Second(m.Acquire(ctx, name))},
			{"adopt", suite.Second(m.Adopt(ctx, leasing.Handover{Name: name, ID: e.Id(), Token: 1}, leasing.AdoptOptions{}))},
			{"inspect", suite.Second(m.Inspect(ctx, name))},
			{"break", suite.Second(m.Break(ctx, name, leasing.BreakOptions{}))},
		} {
			checkError(e, c.err, c.op, name, abstractions.ErrClosed)
		}
		e.ErrorIs(m.Manager.TryDo(ctx, name, func(context.Context, *leasing.Lease) error { return errMine }), abstractions.ErrClosed)
		e.ErrorIs(lease.Renew(ctx), abstractions.ErrReleased)
		e.NoError(lease.Release(ctx), "the result of the first release")
		health := m.Health(ctx)
		e.True(health.Closed)
		e.Equal(leasing.Unhealthy, health.Status)
		e.NotPanics(func() { m.Subscribe(func(leasing.Event) {})() })
		for _, v := range []verb{acquires, renews, releases, inspects, breaks} {
			e.Empty(m.requests(v), "requests of a manager that has ended")
		}
	}},
	{"WhatIsNotSupportedIsSaid", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m, name := manage(e, struct{ abstractions.Provider }{e.P}, leasing.Options{TTL: e.Long}), e.Name()
		checkError(e, suite.Second(m.Waiters(ctx, name)), "waiters", name, abstractions.ErrUnsupported)
		for _, err := range m.List(ctx, leasing.ListOptions{Prefix: name}) {
			checkError(e, err, "list", "", abstractions.ErrUnsupported)
		}
		for _, err := range m.History(ctx, name, leasing.HistoryOptions{}) {
			checkError(e, err, "history", name, abstractions.ErrUnsupported)
		}
		e.ErrorIs(suite.Second(leasing.HeldBy(ctx, m.Manager, "owner", name)), abstractions.ErrUnsupported)
	}},
}

var realLossChecks = []managerCheck{
	// In this check the last renewals get no answer, after a renewal that was refused.
	{"ALossReportsTheLastAnswer", func(_ context.Context, e *suite.Env, _ *testManager) {
		retryOnStall(e, func() error {
			m := manage(e, e.P, leasing.Options{RenewFraction: 0.1}, without(batches))
			answered := make(chan struct{})
			m.setFault(renews, func(x *exchange) error {
				switch x.n {
				case 1:
					return x.pass()
				case 2:
					defer close(answered)
					return fmt.Errorf("%w: %w", abstractions.ErrDenied, errMine)
				}
				return noAnswer(x)
			})
			lease, err := m.TryAcquire(e.T.Context(), e.Name())
			if err != nil {
				return err
			}
			m.awaitEnd(lease, 2*e.Short+e.Slack)
			select {
			case <-answered:
			default:
				return errors.New("no renewal was refused")
			}
			m.isLost(lease, abstractions.LostExpired)
			e.ErrorIs(lease.Err(), abstractions.ErrDenied)
			e.ErrorIs(lease.Err(), errMine)
			var lost []leasing.Event
			e.Await("an event reports the loss", func() bool {
				lost = m.eventLog.events(leasing.EventLost)
				return len(lost) > 0
			})
			e.ErrorIs(lost[0].Err, errMine)
			e.Equal(abstractions.LostExpired, lost[0].Reason)
			after := lost[0].LastRenewal.Sub(m.requests(renews)[0].at)
			if after < -e.Short/20 || after > e.Short/20 {
				return fmt.Errorf("the last successful renewal was sent %v before Event.LastRenewal", -after)
			}
			return nil
		})
	}},
}

// getInTime acquires a free name with a manager whose RequestTimeout is short. The claim of an attempt that is cut off may
// hold the name until its clean-up.
func (m *testManager) getInTime(name string) (lease *leasing.Lease) {
	m.e.Await("a lease of a free name", func() (granted bool) {
		acquired, err := m.TryAcquire(m.e.T.Context(), name)
		lease = acquired
		return err == nil
	})
	return lease
}

// blockedCalls returns a fault whose calls ignore their contexts. The calls return when the channel is closed or the check
// ends.
func blockedCalls(e *suite.Env) (f fault, back chan struct{}) {
	back = make(chan struct{})
	return func(*exchange) error {
		select {
		case <-back:
		case <-e.T.Context().Done():
		}
		return errNoReply
	}, back
}

// retryUnavailable repeats a call that fails as unavailable until it succeeds.
func retryUnavailable(e *suite.Env, what string, call func() error) {
	e.Await(what, func() bool {
		err := call()
		if err != nil {
			e.ErrorIs(err, abstractions.ErrUnavailable)
		}
		return err == nil
	})
}
