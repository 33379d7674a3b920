package providertest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// The checks Manager_RealTime_... run on every server. Their bounds hold on a machine that stalls: a check
// compares two readings of one clock in an order that no stall changes, or it runs under calm.

// inRealTime gives each check a manager without batches, whose leases outlive short stalls. waits is that of the checks.
func inRealTime(waits bool, all ...[]managerCheck) (checks []check) {
	for _, c := range slices.Concat(all...) {
		checks = append(checks, check{name: "Manager_RealTime_" + c.name, waits: waits, run: func(e *env) {
			ttl := 2 * time.Second
			if e.h.Advance == nil {
				ttl = max(ttl, e.short)
			}
			e.short = grantable(ttl, e.caps)
			c.run(e.t.Context(), e, e.manageAlone(e.p))
		}})
	}
	return checks
}

// manageAlone makes a manager with default options that renews without batches.
func (e *env) manageAlone(p abstractions.Provider) *managed {
	return e.manage(p, leasing.Options{}, hiding(batches))
}

// heldLong are the options of a lease that does not run out during a check.
func (e *env) heldLong() *leasing.AcquireOptions {
	return &leasing.AcquireOptions{TTL: e.long, NoAutoRenew: true}
}

// getsFree waits until another client gets the name. The backend may keep the name for a moment for a waiter that has left.
func (e *env) getsFree(name string) {
	req := e.request(name)
	e.eventually(fmt.Sprintf("%q is free", name), func() bool {
		grant, err := e.peer.Acquire(e.t.Context(), req)
		if err != nil {
			return false
		}
		e.NoError(e.peer.Release(e.t.Context(), abstractions.ReleaseRequest{Name: name, ID: req.ID, Token: grant.Token, State: grant.State}))
		return true
	})
}

// ends waits for the end of a lease.
func (m *managed) ends(lease *leasing.Lease, d time.Duration) {
	select {
	case <-lease.Done():
	case <-time.After(d):
		m.e.Fail("a lease has not ended within " + d.String())
	}
}

// lives compares a lease with its record at the backend. It returns the loss if the lease is lost.
func (m *managed) lives(lease *leasing.Lease) error {
	record := m.e.inspect(lease.Name())
	if err := lease.Err(); err != nil {
		return err
	}
	m.e.True(record.Held, "%q is held", lease.Name())
	m.e.Equal(lease.Token(), record.Token, lease.Name())
	return nil
}

// learnsOfItsLoss renews a lost lease until the backend reports the loss.
func (m *managed) learnsOfItsLoss(lease *leasing.Lease) {
	m.e.eventually("a renewal tells of the loss", func() bool { return errors.Is(lease.Renew(m.e.t.Context()), abstractions.ErrLost) })
}

// calm runs a scenario that needs the machine to run without long stalls. It repeats a scenario that fails while
// the process or the backend stalls for a twentieth of the TTL, and fails if there was no such stall twice.
func (e *env) calm(scenario func() error) {
	quiet := 0
	for try := 1; ; try++ {
		stop := make(chan struct{})
		e.slowest.Store(0)
		watched := begin(e, func() (none struct{}) {
			for {
				last := time.Now()
				select {
				case <-stop:
					return none
				case <-e.t.Context().Done():
					return none
				case <-time.After(10 * time.Millisecond):
					e.took(last)
				}
			}
		})
		err := scenario()
		close(stop)
		<-watched
		if err == nil {
			return
		}
		if time.Duration(e.slowest.Load()) < e.short/20 {
			quiet++
		}
		if quiet == 2 || try == 20 {
			e.NoError(err, "after %d tries, in %d of which nothing has stalled", try, quiet)
		}
	}
}

// took notes how long a step has taken.
func (e *env) took(from time.Time) {
	took := int64(time.Since(from))
	for {
		if was := e.slowest.Load(); took <= was || e.slowest.CompareAndSwap(was, took) {
			return
		}
	}
}

// trustIs says how long a lease is trusted whose request was sent between begun and sent.
func (m *managed) trustIs(lease *leasing.Lease, begun, sent time.Time, ttl time.Duration) {
	e := m.e
	before := time.Now()
	left := lease.Remaining()
	after := time.Now()
	margin := ttl/100 + 2*time.Millisecond
	if left > 0 {
		e.LessOrEqual(before.Add(left).Sub(sent), ttl-margin, "trust in a lease of %v, since its request was sent", ttl)
	}
	e.GreaterOrEqual(left, begun.Add(ttl*97/100).Sub(after), "trust in a lease of %v, since its request was sent", ttl)
}

var managerRealTrustChecks = []managerCheck{
	// It has slow replies, which trust does not wait for.
	{"TrustCountsFromTheSending", func(ctx context.Context, e *env, m *managed) {
		slow := slowReply(e.short / 8)
		half := e.short / 2
		halved := granted(func(g *abstractions.Grant) { g.TTL = half })
		for _, c := range []struct {
			reply bend
			ttl   time.Duration
		}{{slow, e.short}, {halved, half}} {
			e.calm(func() error {
				m.bend(acquires, c.reply)
				begun := time.Now()
				lease, err := m.With(*manual).TryAcquire(e.t.Context(), e.name())
				if err != nil {
					return err
				}
				acquired := m.sendings(acquires)[0].at
				m.trustIs(lease, begun, acquired, c.ttl)
				e.Equal(c.ttl, lease.TTL())

				// A renewal without an answer prolongs nothing.
				m.bend(renews, lostReply)
				if err := lease.Renew(ctx); !errors.Is(err, abstractions.ErrUnavailable) {
					return fmt.Errorf("a renewal without an answer: %w", err)
				}
				m.trustIs(lease, begun, acquired, c.ttl)

				m.bend(renews, c.reply)
				begun = time.Now()
				if err := lease.Renew(ctx); err != nil {
					return err
				}
				m.trustIs(lease, begun, m.sendings(renews)[0].at, c.ttl)
				return lease.Release(ctx)
			})
		}

		careful := e.manage(e.p, leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.1, DriftFloor: e.short / 10}})
		lease := careful.get(e.name(), manual)
		before := time.Now()
		if left := lease.Remaining(); left > 0 {
			e.LessOrEqual(before.Add(left).Sub(careful.sendings(acquires)[0].at), e.short*8/10, "trust with margins that were asked for")
		}
	}},
	{"TrustEndsByItself", func(_ context.Context, e *env, m *managed) {
		begun := time.Now()
		lease := m.get(e.name(), manual)
		e.NotPanics(func() { _ = lease.Context().Err() })
		e.pause(lease.Remaining())
		e.ErrorIs(lease.Err(), abstractions.ErrLost, "in the instant in which trust ends")
		m.ends(lease, e.h.Slack)
		e.GreaterOrEqual(time.Since(begun), e.short*97/100, "trust in a lease of %v", e.short)
		e.ErrorIs(context.Cause(lease.Context()), abstractions.ErrLost)
		m.isLost(lease, abstractions.LostExpired)
	}},
	// It has renewals hang that heed no context, and another client that asks for the name all along.
	{"LossComesBeforeTheTakeOver", func(_ context.Context, e *env, _ *managed) {
		e.calm(func() error {
			m := e.manage(e.p, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.short}}, heedless, hiding(batches))
			m.bend(renews, func(*exchange) error {
				<-e.t.Context().Done()
				return errNoReply
			})
			lease, err := m.TryAcquire(e.t.Context(), e.name())
			if err != nil {
				return err
			}
			sent := m.sendings(acquires)[0].at
			lost := begin(e, func() time.Time {
				select {
				case <-lease.Done():
				case <-e.t.Context().Done():
				}
				return time.Now()
			})
			next := e.takesOver(lease.Name(), "a lost lease")
			e.ErrorIs(lease.Err(), abstractions.ErrLost, "when another holds the name")
			e.Greater(next.token(), lease.Token())
			trusted := within(e, e.h.Slack, lost, "the end of the lease's context").Sub(sent)
			m.isLost(lease, abstractions.LostExpired)
			next.isHeld()
			next.release()
			if trusted > e.short*11/10 {
				return fmt.Errorf("the context of a lease of %v ended after %v", e.short, trusted)
			}
			return nil
		})
	}},
	// It loses and refuses some renewals, and delays the reply to the first request.
	{"RenewalsKeepTheLease", func(_ context.Context, e *env, m *managed) {
		e.calm(func() error {
			lease, err := m.TryAcquire(e.t.Context(), e.name())
			if err != nil {
				return err
			}
			m.bend(renews, func(x *exchange) error {
				switch x.n {
				case 1:
					return slowReply(e.short * 8 / 100)(x)
				case 2:
					return errNoReply
				case 3:
					return lostReply(x)
				case 4:
					return &abstractions.ThrottledError{}
				case 5:
					return abstractions.ErrDenied
				}
				return x.pass()
			})
			for end := time.Now().Add(4 * e.short); lease.Err() == nil && lease.Renewals() < 3 && time.Now().Before(end); {
				e.pause(e.short / 100)
			}
			sent := m.sendings(renews)
			acquired := m.sendings(acquires)
			if err := lease.Err(); err != nil {
				return err
			}
			if err := m.lives(lease); err != nil {
				return err
			}
			e.GreaterOrEqual(len(sent), 7, "requests, of which three succeed")
			for _, renewal := range sent {
				e.Equal(e.short, renewal.req.(abstractions.RenewRequest).TTL, "each asks for the lease's TTL")
			}
			e.NoError(lease.Release(context.WithoutCancel(e.t.Context())))
			first, second, last := sent[0].at.Sub(acquired[len(acquired)-1].at), sent[1].at.Sub(sent[0].at), sent[6].at.Sub(sent[5].at)
			for _, pause := range []time.Duration{first, second, last} {
				if pause < e.short/2 || pause > e.short*66/100 {
					return fmt.Errorf("a lease of %v was renewed %v after the request that succeeded", e.short, pause)
				}
			}
			return nil
		})
	}},
	// It has the first attempts end with their contexts.
	{"AHungRenewalLeavesTimeForOthers", func(_ context.Context, e *env, _ *managed) {
		for _, with := range [][]func(*line){{hiding(batches)}, nil} {
			e.calm(func() error {
				m := e.manage(e.p, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.short}}, with...)
				lease, err := m.TryAcquire(e.t.Context(), e.name())
				if err != nil {
					return err
				}
				m.bend(renews, first(2, unanswered))
				for end := time.Now().Add(2 * e.short); lease.Err() == nil && lease.Renewals() == 0 && time.Now().Before(end); {
					e.pause(e.short / 100)
				}
				if err := lease.Err(); err != nil {
					return err
				}
				e.GreaterOrEqual(lease.Renewals(), 1)
				return lease.Release(context.WithoutCancel(e.t.Context()))
			})
		}
	}},
	{"OnlyTheBackendEndsALeaseEarly", func(ctx context.Context, e *env, m *managed) {
		lease := m.get(e.name(), e.heldLong())
		for _, err := range []error{errNoReply, &abstractions.ThrottledError{}, abstractions.ErrDenied, context.DeadlineExceeded} {
			m.bend(renews, first(1, refused(err)))
			e.Error(lease.Renew(ctx), "Renew tells of %v", err)
			e.NoError(lease.Err())
			e.NoError(lease.Renew(ctx), "and no longer, when the next one has succeeded")
			m.isAlive(lease)
		}
		e.breaks(abstractions.BreakRequest{Name: lease.Name(), Immediate: true, Actor: "operator", Reason: "it hangs"})
		m.learnsOfItsLoss(lease)
		m.ends(lease, e.h.Slack)
		m.isLost(lease, abstractions.LostBroken, abstractions.LostGone)

		// A definite loss ends the lease before its trust does, and ends the requests.
		e.calm(func() error {
			m.bend(renews, refused(&abstractions.LostError{Reason: abstractions.LostTaken}))
			lease, err := m.TryAcquire(e.t.Context(), e.name())
			if err != nil {
				return err
			}
			m.ends(lease, e.short+e.h.Slack)
			if lost, ok := lease.Err().(*abstractions.LostError); ok && lost.Reason == abstractions.LostExpired {
				return lost
			}
			m.isLost(lease, abstractions.LostTaken)
			e.pause(e.short / 2)
			e.Len(m.sendings(renews), 1, "a definite loss is not tried again")
			return nil
		})
		e.eventually("an event for each loss", func() bool { return len(m.eventLog.told(leasing.EventLost)) >= 2 })
	}},
	// It has a renewal succeed whose reply comes after the loss.
	{"NothingRevivesALostLease", func(_ context.Context, e *env, _ *managed) {
		for _, with := range []func(*line){heedless, func(*line) {}} {
			e.calm(func() error {
				m := e.manage(e.p, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.short}}, with, hiding(batches))
				back := make(chan struct{})
				m.bend(renews, func(x *exchange) error {
					if x.n > 1 {
						return errNoReply
					}
					defer close(back)
					return slowReply(e.short * 8 / 10)(x)
				})
				lease, err := m.TryAcquire(e.t.Context(), e.name())
				if err != nil {
					return err
				}
				m.ends(lease, e.short+e.h.Slack)
				if len(m.sendings(renews)) == 0 {
					return errors.New("no renewal was sent")
				}
				within(e, e.short+e.h.Slack, back, "the reply")
				e.pause(e.short / 20)
				if lease.Renewals() > 0 {
					return fmt.Errorf("a reply that comes %v after a loss is taken", e.short/5)
				}
				m.isLost(lease, abstractions.LostExpired)
				e.takesOver(lease.Name(), "a lost lease").release()
				e.Len(m.eventLog.told(leasing.EventLost), 1)
				e.Empty(m.eventLog.told(leasing.EventRenewed))
				return nil
			})
		}
	}},
	{"AnInfiniteLeaseIsVerified", func(_ context.Context, e *env, m *managed) {
		if !e.caps.Infinite {
			e.leaveOut("no infinite leases here")
		}
		infinite := &leasing.AcquireOptions{TTL: leasing.Infinite}
		m.bend(renews, lostRequest)
		lease := m.get(e.name(), infinite)
		m.ends(lease, e.short+e.h.Slack) // it begins as a finite one
		m.isLost(lease, abstractions.LostExpired)

		m.bend(renews, nil)
		e.calm(func() error {
			lease, err := m.With(*infinite).TryAcquire(e.t.Context(), e.name())
			if err != nil {
				return err
			}
			for end := time.Now().Add(e.short); lease.Err() == nil && lease.TTL() != leasing.Infinite && time.Now().Before(end); {
				e.pause(e.short / 100)
			}
			if err := lease.Err(); err != nil {
				return err
			}
			e.Equal(leasing.Infinite, lease.TTL())
			e.breaks(abstractions.BreakRequest{Name: lease.Name(), Grace: e.long})
			m.ends(lease, e.short+e.h.Slack)
			m.isLost(lease, abstractions.LostBroken, abstractions.LostGone)
			return nil
		})
	}},
	// It renews some leases at once, of which one is broken.
	{"ABatchTellsOfEachLease", func(ctx context.Context, e *env, _ *managed) {
		ability[abstractions.BatchRenewer](e, e.p)
		e.calm(func() error {
			m := e.manage(e.p, leasing.Options{})
			leases := make([]*leasing.Lease, 16)
			for i := range leases {
				lease, err := m.TryAcquire(e.t.Context(), e.name())
				if err != nil {
					return err
				}
				leases[i] = lease
			}
			e.breaks(abstractions.BreakRequest{Name: leases[7].Name(), Immediate: true})
			e.pause(e.short * 5 / 4)
			for i, lease := range leases {
				if i == 7 {
					m.isLost(lease, abstractions.LostBroken, abstractions.LostGone)
				} else if err := lease.Release(ctx); err != nil {
					return err
				}
			}
			e.NotEmpty(m.sendings(batches))
			return nil
		})
	}},
}

// takesOver has another client ask for a name until it gets it, which must not take longer than the capabilities say.
func (e *env) takesOver(name, what string) *claim {
	most := 2*e.short + e.caps.Lateness.After(e.short) + e.h.Slack
	req := e.request(name)
	for end := time.Now().Add(most); ; e.pause(e.short / 100) {
		next, err := e.try(e.peer, req)
		if err == nil {
			return next
		}
		e.oneOf(err, abstractions.ErrHeld, abstractions.ErrUnavailable)
		e.True(time.Now().Before(end), "%q is free within %v: %s; %v; %+v", name, most, what, err, e.inspect(name))
	}
}
