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

// The checks Manager_RealTime_... run on every server. Their bounds hold even on a machine that stalls: a
// check compares two readings of one clock in an order that no stall changes, or it runs under
// retryOnStall.

// manageWithoutBatches makes a manager with default options that renews without batches.
func manageWithoutBatches(e *suite.Env, p abstractions.Provider) *testManager {
	return manage(e, p, leasing.Options{}, without(batches))
}

// longOptions returns the options of a lease that does not run out during a check.
func longOptions(e *suite.Env) *leasing.AcquireOptions {
	return &leasing.AcquireOptions{TTL: e.Long, NoAutoRenew: true}
}

// awaitFree waits until another client gets the name. The backend may keep the name for a moment for a waiter that has left.
func awaitFree(e *suite.Env, name string) {
	req := e.Request(name)
	e.Await(fmt.Sprintf("%q is free", name), func() bool {
		grant, err := e.Peer.Acquire(e.T.Context(), req)
		if err != nil {
			return false
		}
		e.NoError(e.Peer.Release(e.T.Context(), abstractions.ReleaseRequest{Name: name, ID: req.ID, Token: grant.Token, State: grant.State}))
		return true
	})
}

// awaitEnd waits for the end of a lease.
func (m *testManager) awaitEnd(lease *leasing.Lease, d time.Duration) {
	select {
	case <-lease.Done():
	case <-time.After(d):
		m.e.Fail("a lease has not ended within " + d.String())
	}
}

// checkHeld compares a lease with its record at the backend. It returns the loss if the lease is lost.
func (m *testManager) checkHeld(lease *leasing.Lease) error {
	record := m.e.Inspect(lease.Name())
	if err := lease.Err(); err != nil {
		return err
	}
	m.e.True(record.Held, "%q is held", lease.Name())
	m.e.Equal(lease.Token(), record.Token, lease.Name())
	return nil
}

// awaitReportedLoss renews a lost lease until the backend reports the loss.
func (m *testManager) awaitReportedLoss(lease *leasing.Lease) {
	m.e.Await("a renewal reports the loss", func() bool { return errors.Is(lease.Renew(m.e.T.Context()), abstractions.ErrLost) })
}

// retryOnStall runs a scenario that needs the machine to run without long stalls. It repeats a scenario that fails while
// the process or the backend stalls for a twentieth of the TTL, and fails if the scenario has failed twice without such
// a stall, or 20 times in all.
func retryOnStall(e *suite.Env, scenario func() error) {
	quiet := 0
	for try := 1; ; try++ {
		stop := make(chan struct{})
		e.Slowest.Store(0)
		watched := begin(e, func() (none struct{}) {
			for {
				last := time.Now()
				select {
				case <-stop:
					return none
				case <-e.T.Context().Done():
					return none
				case <-time.After(10 * time.Millisecond):
					e.RecordStep(last)
				}
			}
		})
		err := scenario()
		close(stop)
		<-watched
		if err == nil {
			return
		}
		if time.Duration(e.Slowest.Load()) < e.Short/20 {
			quiet++
		}
		if quiet == 2 || try == 20 {
			e.NoError(err, "after %d tries, in %d of which nothing has stalled", try, quiet)
		}
	}
}

// checkTrust checks how much trust is left in a lease whose request was sent between begun and sent.
func (m *testManager) checkTrust(lease *leasing.Lease, begun, sent time.Time, ttl time.Duration) {
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

var realTrustChecks = []managerCheck{
	// The check delays replies, which must not prolong the trust.
	{"TrustCountsFromTheSending", func(ctx context.Context, e *suite.Env, m *testManager) {
		slow := slowReply(e.Short / 8)
		half := e.Short / 2
		halved := changedGrant(func(g *abstractions.Grant) { g.TTL = half })
		for _, c := range []struct {
			reply fault
			ttl   time.Duration
		}{{slow, e.Short}, {halved, half}} {
			retryOnStall(e, func() error {
				m.setFault(acquires, c.reply)
				begun := time.Now()
				lease, err := m.With(*manual).TryAcquire(e.T.Context(), e.Name())
				if err != nil {
					return err
				}
				acquired := m.requests(acquires)[0].at
				m.checkTrust(lease, begun, acquired, c.ttl)
				e.Equal(c.ttl, lease.TTL())

				// A renewal without an answer does not prolong trust.
				m.setFault(renews, lostReply)
				if err := lease.Renew(ctx); !errors.Is(err, abstractions.ErrUnavailable) {
					return fmt.Errorf("a renewal without an answer: %w", err)
				}
				m.checkTrust(lease, begun, acquired, c.ttl)

				m.setFault(renews, c.reply)
				begun = time.Now()
				if err := lease.Renew(ctx); err != nil {
					return err
				}
				m.checkTrust(lease, begun, m.requests(renews)[0].at, c.ttl)
				return lease.Release(ctx)
			})
		}

		careful := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.1, DriftFloor: e.Short / 10}})
		lease := careful.get(e.Name(), manual)
		before := time.Now()
		if left := lease.Remaining(); left > 0 {
			e.LessOrEqual(before.Add(left).Sub(careful.requests(acquires)[0].at), e.Short*8/10, "trust with margins that were asked for")
		}
	}},
	{"TrustEndsByItself", func(_ context.Context, e *suite.Env, m *testManager) {
		begun := time.Now()
		lease := m.get(e.Name(), manual)
		e.NotPanics(func() { _ = lease.Context().Err() })
		e.Pause(lease.Remaining())
		e.ErrorIs(lease.Err(), abstractions.ErrLost, "in the instant in which trust ends")
		m.awaitEnd(lease, e.Slack)
		e.GreaterOrEqual(time.Since(begun), e.Short*97/100, "trust in a lease of %v", e.Short)
		e.ErrorIs(context.Cause(lease.Context()), abstractions.ErrLost)
		m.isLost(lease, abstractions.LostExpired)
	}},
	// In this check renewals hang and ignore their contexts, while another client keeps trying to acquire the name.
	{"LossComesBeforeTheTakeOver", func(_ context.Context, e *suite.Env, _ *testManager) {
		retryOnStall(e, func() error {
			m := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short}}, ignoringContexts, without(batches))
			m.setFault(renews, func(*exchange) error {
				<-e.T.Context().Done()
				return errNoReply
			})
			lease, err := m.TryAcquire(e.T.Context(), e.Name())
			if err != nil {
				return err
			}
			sent := m.requests(acquires)[0].at
			lost := begin(e, func() time.Time {
				select {
				case <-lease.Done():
				case <-e.T.Context().Done():
				}
				return time.Now()
			})
			next := takeOver(e, lease.Name(), "a lost lease")
			e.ErrorIs(lease.Err(), abstractions.ErrLost, "when another holds the name")
			e.Greater(next.Token(), lease.Token())
			trusted := within(e, e.Slack, lost, "the end of the lease's context").Sub(sent)
			m.isLost(lease, abstractions.LostExpired)
			next.IsHeld()
			next.Release()
			if trusted > e.Short*11/10 {
				return fmt.Errorf("the context of a lease of %v ended after %v", e.Short, trusted)
			}
			return nil
		})
	}},
	// The check loses and refuses some renewals, and delays the reply to the first request.
	{"RenewalsKeepTheLease", func(_ context.Context, e *suite.Env, m *testManager) {
		retryOnStall(e, func() error {
			lease, err := m.TryAcquire(e.T.Context(), e.Name())
			if err != nil {
				return err
			}
			m.setFault(renews, func(x *exchange) error {
				switch x.n {
				case 1:
					return slowReply(e.Short * 8 / 100)(x)
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
			for end := time.Now().Add(4 * e.Short); lease.Err() == nil && lease.Renewals() < 3 && time.Now().Before(end); {
				e.Pause(e.Short / 100)
			}
			sent := m.requests(renews)
			acquired := m.requests(acquires)
			if err := lease.Err(); err != nil {
				return err
			}
			if err := m.checkHeld(lease); err != nil {
				return err
			}
			e.GreaterOrEqual(len(sent), 7, "requests, of which three succeed")
			for _, renewal := range sent {
				e.Equal(e.Short, renewal.req.(abstractions.RenewRequest).TTL, "each asks for the lease's TTL")
			}
			e.NoError(lease.Release(context.WithoutCancel(e.T.Context())))
			first, second, last := sent[0].at.Sub(acquired[len(acquired)-1].at), sent[1].at.Sub(sent[0].at), sent[6].at.Sub(sent[5].at)
			for _, pause := range []time.Duration{first, second, last} {
				if pause < e.Short/2 || pause > e.Short*66/100 {
					return fmt.Errorf("a lease of %v was renewed %v after the request that succeeded", e.Short, pause)
				}
			}
			return nil
		})
	}},
	// In this check the first attempts get no answer until their contexts end.
	{"AHungRenewalLeavesTimeForOthers", func(_ context.Context, e *suite.Env, _ *testManager) {
		for _, with := range [][]func(*faultyProvider){{without(batches)}, nil} {
			retryOnStall(e, func() error {
				m := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short}}, with...)
				lease, err := m.TryAcquire(e.T.Context(), e.Name())
				if err != nil {
					return err
				}
				m.setFault(renews, onFirst(2, noAnswer))
				for end := time.Now().Add(2 * e.Short); lease.Err() == nil && lease.Renewals() == 0 && time.Now().Before(end); {
					e.Pause(e.Short / 100)
				}
				if err := lease.Err(); err != nil {
					return err
				}
				e.GreaterOrEqual(lease.Renewals(), 1)
				return lease.Release(context.WithoutCancel(e.T.Context()))
			})
		}
	}},
	{"OnlyTheBackendEndsALeaseEarly", func(ctx context.Context, e *suite.Env, m *testManager) {
		lease := m.get(e.Name(), longOptions(e))
		for _, err := range []error{errNoReply, &abstractions.ThrottledError{}, abstractions.ErrDenied, context.DeadlineExceeded} {
			m.setFault(renews, onFirst(1, refusal(err)))
			e.Error(lease.Renew(ctx), "Renew reports %v", err)
			e.NoError(lease.Err())
			e.NoError(lease.Renew(ctx), "and no longer, when the next one has succeeded")
			m.isAlive(lease)
		}
		e.Break(abstractions.BreakRequest{Name: lease.Name(), Immediate: true, Actor: "operator", Reason: "it hangs"})
		m.awaitReportedLoss(lease)
		m.awaitEnd(lease, e.Slack)
		m.isLost(lease, abstractions.LostBroken, abstractions.LostGone)

		// A definite loss ends the lease before its trust has run out, and ends the requests.
		retryOnStall(e, func() error {
			m.setFault(renews, refusal(&abstractions.LostError{Reason: abstractions.LostTaken}))
			lease, err := m.TryAcquire(e.T.Context(), e.Name())
			if err != nil {
				return err
			}
			m.awaitEnd(lease, e.Short+e.Slack)
			if lost, ok := lease.Err().(*abstractions.LostError); ok && lost.Reason == abstractions.LostExpired {
				return lost
			}
			m.isLost(lease, abstractions.LostTaken)
			e.Pause(e.Short / 2)
			e.Len(m.requests(renews), 1, "a definite loss is not tried again")
			return nil
		})
		e.Await("an event for each loss", func() bool { return len(m.eventLog.events(leasing.EventLost)) >= 2 })
	}},
	// In this check a renewal succeeds, but its reply comes after the loss.
	{"NothingRevivesALostLease", func(_ context.Context, e *suite.Env, _ *testManager) {
		for _, with := range []func(*faultyProvider){ignoringContexts, func(*faultyProvider) {}} {
			retryOnStall(e, func() error {
				m := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short}}, with, without(batches))
				back := make(chan struct{})
				m.setFault(renews, func(x *exchange) error {
					if x.n > 1 {
						return errNoReply
					}
					defer close(back)
					return slowReply(e.Short * 8 / 10)(x)
				})
				lease, err := m.TryAcquire(e.T.Context(), e.Name())
				if err != nil {
					return err
				}
				m.awaitEnd(lease, e.Short+e.Slack)
				if len(m.requests(renews)) == 0 {
					return errors.New("no renewal was sent")
				}
				within(e, e.Short+e.Slack, back, "the reply")
				e.Pause(e.Short / 20)
				if lease.Renewals() > 0 {
					return fmt.Errorf("a reply that comes %v after a loss is taken", e.Short/5)
				}
				m.isLost(lease, abstractions.LostExpired)
				takeOver(e, lease.Name(), "a lost lease").Release()
				e.Len(m.eventLog.events(leasing.EventLost), 1)
				e.Empty(m.eventLog.events(leasing.EventRenewed))
				return nil
			})
		}
	}},
	{"AnInfiniteLeaseIsVerified", func(_ context.Context, e *suite.Env, m *testManager) {
		if !e.Caps.Infinite {
			e.LeaveOut("no infinite leases here")
		}
		infinite := &leasing.AcquireOptions{TTL: leasing.Infinite}
		m.setFault(renews, lostRequest)
		lease := m.get(e.Name(), infinite)
		m.awaitEnd(lease, e.Short+e.Slack) // an infinite lease begins as a finite one
		m.isLost(lease, abstractions.LostExpired)

		m.setFault(renews, nil)
		retryOnStall(e, func() error {
			lease, err := m.With(*infinite).TryAcquire(e.T.Context(), e.Name())
			if err != nil {
				return err
			}
			for end := time.Now().Add(e.Short); lease.Err() == nil && lease.TTL() != leasing.Infinite && time.Now().Before(end); {
				e.Pause(e.Short / 100)
			}
			if err := lease.Err(); err != nil {
				return err
			}
			e.Equal(leasing.Infinite, lease.TTL())
			e.Break(abstractions.BreakRequest{Name: lease.Name(), Grace: e.Long})
			m.awaitEnd(lease, e.Short+e.Slack)
			m.isLost(lease, abstractions.LostBroken, abstractions.LostGone)
			return nil
		})
	}},
	// The check renews some leases together. One of them is broken.
	{"ABatchReportsEachLease", func(ctx context.Context, e *suite.Env, _ *testManager) {
		suite.Ability[abstractions.BatchRenewer](e, e.P)
		retryOnStall(e, func() error {
			m := manage(e, e.P, leasing.Options{})
			leases := make([]*leasing.Lease, 16)
			for i := range leases {
				lease, err := m.TryAcquire(e.T.Context(), e.Name())
				if err != nil {
					return err
				}
				leases[i] = lease
			}
			e.Break(abstractions.BreakRequest{Name: leases[7].Name(), Immediate: true})
			e.Pause(e.Short * 5 / 4)
			for i, lease := range leases {
				if i == 7 {
					m.isLost(lease, abstractions.LostBroken, abstractions.LostGone)
				} else if err := lease.Release(ctx); err != nil {
					return err
				}
			}
			e.NotEmpty(m.requests(batches))
			return nil
		})
	}},
}

// takeOver makes another client try to acquire a name until it succeeds, which must not take longer than the
// capabilities allow.
func takeOver(e *suite.Env, name, what string) *suite.Claim {
	most := 2*e.Short + e.Caps.Lateness.After(e.Short) + e.Slack
	req := e.Request(name)
	for end := time.Now().Add(most); ; e.Pause(e.Short / 100) {
		next, err := e.Try(e.Peer, req)
		if err == nil {
			return next
		}
		e.OneOf(err, abstractions.ErrHeld, abstractions.ErrUnavailable)
		e.True(time.Now().Before(end), "%q is free within %v: %s; %v; %+v", name, most, what, err, e.Inspect(name))
	}
}
