package providertest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// tellsOf requires that err names the failed call and matches all of the causes.
func (e *env) tellsOf(err error, op, name string, causes ...error) {
	var where *leasing.Error
	e.ErrorAs(err, &where, "%s %q", op, name)
	e.Equal([]string{op, e.caps.Provider, name}, []string{where.Op, where.Provider, where.Name})
	for _, cause := range causes {
		e.ErrorIs(err, cause, op)
	}
}

// handsOver is HandOver without the Handover.
func handsOver(ctx context.Context, lease *leasing.Lease) error { return second(lease.HandOver(ctx)) }

var managerRealErrorChecks = []managerCheck{
	{"ErrorsTellOfTheCallAndItsCause", func(ctx context.Context, e *env, m *managed) {
		adoption := leasing.Handover{Name: e.name(), ID: e.id(), Token: 1}
		for _, kind := range []error{abstractions.ErrUnavailable, abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp} {
			lease := m.get(e.name(), e.heldLong())
			name := lease.Name()
			e.soon() // HandOver renews a lease that was not renewed in this instant
			for _, v := range []verb{acquires, renews, releases, inspects, breaks} {
				m.bend(v, refused(fmt.Errorf("%w: %w", kind, errMine)))
			}
			for _, c := range []struct {
				op, name string
				err      error
			}{
				{"acquire", name, m.try(ctx, name)},
				{"adopt", adoption.Name, second(m.Adopt(ctx, adoption, leasing.AdoptOptions{}))},
				{"inspect", name, second(m.Inspect(ctx, name))},
				{"break", name, second(m.Break(ctx, name, leasing.BreakOptions{}))},
				{"renew", name, lease.Renew(ctx)},
				{"renew", name, lease.SetMetadata(ctx, map[string]string{"k": "v"})},
				{"renew", name, handsOver(ctx, lease)},
			} {
				e.tellsOf(c.err, c.op, c.name, kind, errMine)
				e.NotErrorIs(c.err, abstractions.ErrLost)
			}
			m.isAlive(lease)
			for _, v := range []verb{acquires, renews, inspects, breaks} {
				m.bend(v, nil)
			}
			hasty, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			e.tellsOf(within(e, e.h.Slack, begin(e, func() error { return lease.Release(hasty) }), "Release"), "release", name, kind, errMine)
			cancel()
			m.bend(releases, nil)
		}
	}},
	// It asks for leases that ended in each way.
	{"AnEndedLeaseTellsHowItEnded", func(ctx context.Context, e *env, m *managed) {
		over := func(lease *leasing.Lease, want error) {
			for _, sentinel := range []error{abstractions.ErrReleased, abstractions.ErrHandedOver, abstractions.ErrClosed, abstractions.ErrLost} {
				for what, err := range map[string]error{"Err": lease.Err(), "the context's cause": context.Cause(lease.Context())} {
					e.Equal(sentinel == want, errors.Is(err, sentinel), "%s, of a lease that ended as %v: %v", what, want, err)
				}
			}
			e.Zero(lease.Remaining())
			e.tellsOf(lease.Renew(ctx), "renew", lease.Name(), want)
			e.tellsOf(handsOver(ctx, lease), "hand over", lease.Name(), want)
			e.ErrorIs(lease.SetMetadata(ctx, nil), want)
		}
		m.bend(renews, nil)
		released, underWay := m.get(e.name(), e.heldLong()), m.get(e.name(), e.heldLong())
		e.NoError(released.Release(ctx))
		over(released, abstractions.ErrReleased)
		sent, answer := make(chan struct{}), make(chan struct{})
		m.bend(releases, func(x *exchange) error {
			close(sent)
			<-answer
			return x.pass()
		})
		done := begin(e, func() error { return underWay.Release(ctx) })
		within(e, e.h.Slack, sent, "a release")
		over(underWay, abstractions.ErrReleased)
		ended, cancel := context.WithCancelCause(ctx)
		cancel(errMine)
		e.tellsOf(underWay.Release(ended), "release", underWay.Name(), errMine)
		close(answer)
		e.NoError(within(e, e.h.Slack, done, "a release"))
		m.bend(releases, nil)
		e.Empty(m.sendings(renews), "requests for a lease that has ended")

		handedOver := m.get(e.name(), e.heldLong())
		e.NoError(handsOver(ctx, handedOver))
		over(handedOver, abstractions.ErrHandedOver)
		_ = handedOver.Release(ctx)
		e.isTaken(handedOver.Name(), "it was handed over")

		lost := m.get(e.name(), e.heldLong())
		m.bend(renews, refused(&abstractions.LostError{Reason: abstractions.LostTaken}))
		e.ErrorIs(lost.Renew(ctx), abstractions.ErrLost)
		over(lost, abstractions.ErrLost)
		e.tellsOf(lost.Release(ctx), "release", lost.Name(), abstractions.ErrLost)
		m.bend(renews, nil)

		closed := m.get(e.name(), e.heldLong())
		done = begin(e, func() error { return m.Close(ctx) })
		m.ends(closed, e.h.Slack)
		e.ErrorIs(closed.Err(), abstractions.ErrClosed)
		e.NoError(closed.Renew(ctx), "the lease is held until its holder has released it")
		e.NoError(closed.Release(ctx))
		e.NoError(within(e, e.h.Slack, done, "Close"))
		e.ErrorIs(closed.Err(), abstractions.ErrClosed)
	}},
	{"AGrantThatComesTooLateIsNone", func(ctx context.Context, e *env, _ *managed) {
		brief := grantable(max(e.caps.MinTTL, 300*time.Millisecond), e.caps)
		for _, with := range []func(*line){heedless, func(*line) {}} {
			m := e.manage(e.p, leasing.Options{TTL: brief, NoAutoRenew: true, Tuning: leasing.Tuning{RequestTimeout: 10 * brief}}, with)
			name, back := e.name(), make(chan struct{})
			m.bend(acquires, func(x *exchange) error {
				defer close(back)
				x.ctx = context.WithoutCancel(x.ctx)
				return slowReply(brief)(x)
			})
			_, err := m.TryAcquire(ctx, name)
			e.ErrorIs(err, abstractions.ErrUnavailable, "a grant whose trust has ended")
			within(e, e.h.Slack+brief, back, "the reply")
			e.getsFree(name)
			e.NoError(m.Close(ctx))
			e.Empty(m.eventLog.told(leasing.EventAcquired))
		}
	}},
	// Its renewals hang and heed no context.
	{"NothingFollowsAHandOver", func(ctx context.Context, e *env, _ *managed) {
		m := e.manage(e.p, leasing.Options{TTL: e.long, NoAutoRenew: true, Tuning: leasing.Tuning{RequestTimeout: 100 * time.Millisecond}}, heedless)
		lease := m.getInTime(e.name())
		for range 2 {
			hangs, back := e.hangs()
			m.bend(renews, first(1, hangs))
			e.ErrorIs(within(e, e.h.Slack, begin(e, func() error { return lease.Renew(ctx) }), "Renew"), abstractions.ErrUnavailable)
			e.ErrorIs(handsOver(ctx, lease), abstractions.ErrUnavailable, "HandOver, beside a request that has not returned")
			m.isAlive(lease)
			close(back)
		}
		e.settles("HandOver", func() error { return handsOver(ctx, lease) })
		e.ErrorIs(lease.Err(), abstractions.ErrHandedOver)
		e.isTaken(lease.Name(), "the lease goes on")
	}},
	// It has batches hang that heed no context. One lease is in two of the batches, and another lease in each.
	{"NothingFollowsAHandOverOfABatch", func(ctx context.Context, e *env, _ *managed) {
		ability[abstractions.BatchRenewer](e, e.p)
		cadence := time.Second / 2
		e.calm(func() error {
			m := e.manage(e.p, leasing.Options{TTL: e.long, RenewCadence: cadence, Tuning: leasing.Tuning{RequestTimeout: 100 * time.Millisecond}}, heedless)
			lease := m.getInTime(e.name())
			for range 2 {
				hangs, back := e.hangs()
				both := []*leasing.Lease{lease, m.getInTime(e.name())}
				errs := make([]error, len(both))
				sideBySide(len(both), func(i int) { errs[i] = both[i].Renew(ctx) }) // so that both are due at about one time
				if err := errors.Join(errs...); err != nil {
					return err
				}
				m.bend(batches, first(1, hangs))
				e.pause(2 * cadence)
				if len(m.sendings(batches)) == 0 {
					return errors.New("there was no batch")
				}
				e.ErrorIs(handsOver(ctx, lease), abstractions.ErrUnavailable, "HandOver, beside a batch that has not returned")
				m.isAlive(lease)
				close(back)
				e.settles("HandOver", func() error { return handsOver(ctx, both[1]) })
			}
			e.settles("HandOver", func() error { return handsOver(ctx, lease) })
			return nil
		})
	}},
	// It has earlier requests for the lease hang.
	{"AProviderThatHangsIsAskedNoMore", func(ctx context.Context, e *env, _ *managed) {
		m := e.manage(e.p, leasing.Options{TTL: e.long, NoAutoRenew: true, Tuning: leasing.Tuning{RequestTimeout: 100 * time.Millisecond}}, heedless)
		lease := m.getInTime(e.name())
		hangs, back := e.hangs()
		m.bend(renews, hangs)
		for range 4 {
			e.tellsOf(within(e, e.h.Slack, begin(e, func() error { return lease.Renew(ctx) }), "Renew"), "renew", lease.Name(), abstractions.ErrUnavailable)
		}
		e.Less(len(m.sendings(renews)), 4, "requests beside earlier ones that hang")
		e.NoError(lease.Err())
		m.bend(renews, nil)
		close(back)
		e.settles("a provider that hangs no more", func() error { return lease.Renew(ctx) })
		e.NoError(lease.Release(ctx))
		e.isFree(lease.Name())
	}},
	{"NothingWorksAfterClose", func(ctx context.Context, e *env, m *managed) {
		lease := m.get(e.name(), e.heldLong())
		e.NoError(lease.Release(ctx))
		e.NoError(m.Close(ctx))
		e.NoError(m.Close(ctx), "Close may be called again")
		for _, v := range []verb{acquires, renews, releases, inspects, breaks} {
			m.bend(v, nil)
		}
		name := e.name()
		for _, c := range []struct {
			op  string
			err error
		}{
			{"acquire", m.try(ctx, name)},
			{"acquire", second(m.Acquire(ctx, name))},
			{"adopt", second(m.Adopt(ctx, leasing.Handover{Name: name, ID: e.id(), Token: 1}, leasing.AdoptOptions{}))},
			{"inspect", second(m.Inspect(ctx, name))},
			{"break", second(m.Break(ctx, name, leasing.BreakOptions{}))},
		} {
			e.tellsOf(c.err, c.op, name, abstractions.ErrClosed)
		}
		e.ErrorIs(m.Manager.TryDo(ctx, name, func(context.Context, *leasing.Lease) error { return errMine }), abstractions.ErrClosed)
		e.ErrorIs(lease.Renew(ctx), abstractions.ErrReleased)
		e.NoError(lease.Release(ctx), "the result of the first release")
		health := m.Health(ctx)
		e.True(health.Closed)
		e.Equal(leasing.Unhealthy, health.Status)
		e.NotPanics(func() { m.Subscribe(func(leasing.Event) {})() })
		for _, v := range []verb{acquires, renews, releases, inspects, breaks} {
			e.Empty(m.sendings(v), "requests of a manager that has ended")
		}
	}},
	{"WhatIsNotSupportedIsSaid", func(ctx context.Context, e *env, _ *managed) {
		m, name := e.manage(plain{e.p}, leasing.Options{TTL: e.long}), e.name()
		e.tellsOf(second(m.Waiters(ctx, name)), "waiters", name, abstractions.ErrUnsupported)
		for _, err := range m.List(ctx, leasing.ListOptions{Prefix: name}) {
			e.tellsOf(err, "list", "", abstractions.ErrUnsupported)
		}
		for _, err := range m.History(ctx, name, leasing.HistoryOptions{}) {
			e.tellsOf(err, "history", name, abstractions.ErrUnsupported)
		}
		e.ErrorIs(second(leasing.HeldBy(ctx, m.Manager, "owner", name)), abstractions.ErrUnsupported)
	}},
}

var managerRealLossChecks = []managerCheck{
	// It has the last renewals get no answer, after a renewal that was refused.
	{"ALossTellsTheLastAnswer", func(_ context.Context, e *env, _ *managed) {
		e.calm(func() error {
			m := e.manage(e.p, leasing.Options{RenewFraction: 0.1}, hiding(batches))
			answered := make(chan struct{})
			m.bend(renews, func(x *exchange) error {
				switch x.n {
				case 1:
					return x.pass()
				case 2:
					defer close(answered)
					return fmt.Errorf("%w: %w", abstractions.ErrDenied, errMine)
				}
				return unanswered(x)
			})
			lease, err := m.TryAcquire(e.t.Context(), e.name())
			if err != nil {
				return err
			}
			m.ends(lease, 2*e.short+e.h.Slack)
			select {
			case <-answered:
			default:
				return errors.New("no renewal was refused")
			}
			m.isLost(lease, abstractions.LostExpired)
			e.ErrorIs(lease.Err(), abstractions.ErrDenied)
			e.ErrorIs(lease.Err(), errMine)
			var lost []leasing.Event
			e.eventually("an event tells of the loss", func() bool {
				lost = m.eventLog.told(leasing.EventLost)
				return len(lost) > 0
			})
			e.ErrorIs(lost[0].Err, errMine)
			e.Equal(abstractions.LostExpired, lost[0].Reason)
			after := lost[0].LastRenewal.Sub(m.sendings(renews)[0].at)
			if after < -e.short/20 || after > e.short/20 {
				return fmt.Errorf("the last successful renewal was sent %v before Event.LastRenewal", -after)
			}
			return nil
		})
	}},
}

// getInTime acquires a free name, where requests have little time. The claim of an attempt that is cut off may hold the name
// until its clean-up.
func (m *managed) getInTime(name string) (lease *leasing.Lease) {
	m.e.eventually("a lease of a free name", func() (granted bool) {
		acquired, err := m.TryAcquire(m.e.t.Context(), name)
		lease = acquired
		return err == nil
	})
	return lease
}

// hangs returns a bend whose calls heed no context. They return once the channel is closed, or the check ends.
func (e *env) hangs() (b bend, back chan struct{}) {
	back = make(chan struct{})
	return func(*exchange) error {
		select {
		case <-back:
		case <-e.t.Context().Done():
		}
		return errNoReply
	}, back
}

// settles repeats a call that fails as unavailable until it succeeds.
func (e *env) settles(what string, call func() error) {
	e.eventually(what, func() bool {
		err := call()
		if err != nil {
			e.ErrorIs(err, abstractions.ErrUnavailable)
		}
		return err == nil
	})
}
