package managersuite

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var trustChecks = []managerCheck{
	{"Manager_Trap_T01_TrustBeginsBeforeTheRequest", func(_ context.Context, e *suite.Env, m *testManager) {
		m.setFault(acquires, slowReply(e.Short/4))
		sent := time.Now()
		lease := m.get(e.Name(), manual)
		e.LessOrEqual(lease.Remaining(), window(e.Short)-e.Short/4, "Remaining")
		m.isLostBy(lease, sent, e.Short, abstractions.LostExpired)

		careful := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.1, DriftFloor: e.Short / 10}})
		e.LessOrEqual(careful.get(e.Name(), manual).Remaining(), e.Short*8/10, "Remaining, with margins that were asked for")

		lease = m.get(e.Name(), manual)
		e.Pause(e.Short / 4)
		m.setFault(renews, slowReply(e.Short/8))
		sent = time.Now()
		e.NoError(lease.Renew(e.T.Context()))
		e.LessOrEqual(lease.Remaining(), window(e.Short)-e.Short/8, "Remaining")
		m.isLostBy(lease, sent, e.Short, abstractions.LostExpired)
	}},
	// The check calls Err at the very instant at which trust ends. Err has to report the loss without an earlier
	// event.
	{"Manager_Trap_T05_ErrReportsTheLossByItself", func(_ context.Context, e *suite.Env, m *testManager) {
		var reported []<-chan error
		for range 32 {
			lease := m.get(e.Name(), manual)
			reported = append(reported, begin(e, func() error {
				time.Sleep(lease.Remaining())
				return lease.Err()
			}))
		}
		for _, err := range reported {
			e.ErrorIs(within(e, e.Short, err, "the end of trust"), abstractions.ErrLost)
		}
	}},
	// In this check the acquire arrives when its caller no longer trusts the grant.
	{"Manager_Trap_T01_LateGrantIsGivenBack", func(_ context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short}}, ignoringContexts)
		name := e.Name()
		m.setFault(acquires, onFirst(1, slowRequest(e.Short)))
		e.Error(m.try(e.T.Context(), name), "its trust had run out")
		e.Pause(e.Short / 4)
		e.IsFree(name)

		direct := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short}})
		direct.setFault(acquires, onFirst(1, slowRequest(e.Short)))
		e.Error(direct.try(e.T.Context(), e.Name()), "its trust had run out")
		direct.setFault(acquires, nil)
		name = e.Name()
		direct.setFault(acquires, slowRequest(e.Short))
		e.Error(direct.try(e.T.Context(), name))
		e.Pause(e.Short / 20)
		e.IsFree(name)

		// An acquire that arrives long after the backend has forgotten its release is cleaned up as well.
		name = e.Name()
		m.setFault(acquires, onFirst(1, slowRequest(time.Hour)))
		begun := time.Now()
		e.Error(m.try(e.T.Context(), name))
		for range 10 {
			e.Pause(2 * time.Minute)
			e.NoError(m.get(name, nil).Release(e.T.Context()))
		}
		e.Pause(time.Until(begun.Add(time.Hour + e.Short/4)))
		e.IsFree(name)
	}},
	// In this check a renewal never returns.
	{"Manager_Trap_T03_LossWaitsForNothing", func(_ context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short}}, ignoringContexts)
		m.setFault(renews, func(*exchange) error {
			<-e.T.Context().Done()
			return errNoReply
		})
		before := time.Now()
		lease := m.get(e.Name(), nil)
		m.isLostBy(lease, before, e.Short, abstractions.LostExpired)

		direct := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short}})
		direct.setFault(renews, slowRequest(2*e.Short)) // the call ignores its context
		before = time.Now()
		lease = direct.get(e.Name(), nil)
		direct.isLostBy(lease, before, e.Short, abstractions.LostExpired)
		e.Pause(2 * e.Short) // until the call returns

		// A lost lease leaves no goroutine behind.
		other := manage(e, e.P, leasing.Options{})
		other.setFault(renews, refusal(&abstractions.LostError{Reason: abstractions.LostGone}))
		running := goroutines(e)
		for range 32 {
			e.Error(other.get(e.Name(), manual).Renew(e.T.Context()))
		}
		e.WaitIdle()
		e.Less(goroutines(e), running+16, "goroutines after 32 losses")
	}},
	{"Manager_Trap_T04_OnlyALossIsALoss", func(ctx context.Context, e *suite.Env, m *testManager) {
		lease := m.get(e.Name(), nil)
		for _, err := range []error{errNoReply, &abstractions.ThrottledError{}, abstractions.ErrDenied, context.DeadlineExceeded} {
			m.setFault(renews, onFirst(1, refusal(err)))
			e.Error(lease.Renew(ctx), "Renew reports %v", err)
			e.NoError(lease.Renew(ctx), "and no longer, when the next one has succeeded")
			m.isAlive(lease)
			m.setFault(renews, onFirst(2, refusal(err)))
			e.Pause(e.Short)
			m.isAlive(lease)
		}
		// The error of an attempt's context says nothing about the lease.
		m.setFault(renews, onFirst(1, noAnswer))
		e.ErrorIs(lease.Renew(ctx), abstractions.ErrUnavailable)
		m.isAlive(lease)

		m.setFault(renews, refusal(&abstractions.LostError{Reason: abstractions.LostTaken}))
		e.Pause(e.Short * 2 / 3)
		e.Len(m.requests(renews), 1, "a definite loss is not tried again")
		m.isLost(lease, abstractions.LostTaken)
		e.Len(m.events(leasing.EventLost), 1)
	}},
	// In this check the backend grants half of the requested TTL.
	{"Manager_Trap_T08_LesserTTLIsRenewedInTime", func(_ context.Context, e *suite.Env, m *testManager) {
		half := e.Short / 2
		halved := changedGrant(func(g *abstractions.Grant) { g.TTL = half })
		m.setFault(acquires, halved)
		m.setFault(renews, halved)
		lease := m.get(e.Name(), manual)
		e.LessOrEqual(lease.Remaining(), window(half), "an acquire")
		e.Pause(half / 2)
		sent := time.Now()
		e.NoError(lease.Renew(e.T.Context()))
		e.LessOrEqual(lease.Remaining(), window(half), "a renewal")
		m.isLostBy(lease, sent, half, abstractions.LostExpired)

		lease = m.get(e.Name(), nil)
		e.Pause(3 * e.Short)
		m.isAlive(lease)
		e.Equal(half, lease.TTL())
	}},
	// The check delays replies, and checks the time at which each request is sent.
	{"Manager_Trap_T09_RenewalsAreCountedFromTheirSending", func(_ context.Context, e *suite.Env, m *testManager) {
		var inner any // the provider's state of the latest grant; the manager gets a mark in its place
		var mark *int
		marked := func(x *exchange) error {
			if req, ok := x.req.(abstractions.RenewRequest); ok {
				e.Same(mark, req.State, "a request has the state of the latest grant")
				req.State = inner
				x.req = req
				defer time.Sleep(e.Short / 10)
			}
			err := x.pass()
			grant := x.reply.(abstractions.Grant)
			inner, mark = grant.State, new(int)
			grant.State = mark
			x.reply = grant
			return err
		}
		m.setFault(acquires, marked)
		m.setFault(renews, marked)
		last := time.Now()
		lease := m.get(e.Name(), nil)
		e.Pause(4 * e.Short)
		sent := m.requests(renews)
		e.GreaterOrEqual(len(sent), 6)
		for _, renewal := range sent {
			e.LessOrEqual(renewal.at.Sub(last), e.Short*61/100, "from one renewal's sending to the next")
			e.GreaterOrEqual(renewal.at.Sub(last), e.Short/2)
			e.Equal(e.Short, renewal.req.(abstractions.RenewRequest).TTL, "each asks for the lease's TTL")
			last = renewal.at
		}
		e.GreaterOrEqual(lease.Renewals(), 6)
		e.Len(m.events(leasing.EventRenewed), lease.Renewals())

		short := &leasing.AcquireOptions{TTL: max(e.Caps.MinTTL, 100*time.Millisecond)}
		brief := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{Random: func() float64 { return 0.999 }}}) // the most jitter
		lease = brief.get(e.Name(), short)
		e.Pause(time.Second)
		brief.isAlive(lease)
	}},
	{"Manager_Trap_T11_RenewalByHand", func(ctx context.Context, e *suite.Env, m *testManager) {
		lease := m.get(e.Name(), manual)
		e.Pause(e.Short * 8 / 10)
		e.Empty(m.requests(renews), "renewal is left to the application")
		sent := time.Now()
		e.NoError(lease.Renew(ctx))
		m.isLostBy(lease, sent, e.Short, abstractions.LostExpired)

		// Concurrent callers share a request, which continues when one caller leaves.
		lease = m.get(e.Name(), manual)
		m.setFault(renews, onFirst(1, func(x *exchange) error {
			e.Pause(time.Second)
			return lostReply(x)
		}))
		caller, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		defer cancel()
		one := begin(e, func() error { return lease.Renew(ctx) })
		two := begin(e, func() error { return lease.Renew(ctx) })
		e.WaitIdle()
		begun := time.Now()
		e.ErrorIs(lease.Renew(caller), context.DeadlineExceeded)
		e.LessOrEqual(time.Since(begun), 200*time.Millisecond, "Renew ends with its context")
		for _, done := range []<-chan error{one, two} {
			e.ErrorIs(within(e, 2*time.Second, done, "a renewal that was joined"), abstractions.ErrUnavailable)
		}
		e.Len(m.requests(renews), 1, "requests for a lease at a time")
		e.NoError(lease.Renew(ctx))
		e.NoError(lease.Release(ctx))
		e.ErrorIs(lease.Renew(ctx), abstractions.ErrReleased)
	}},
	// In this check a renewal succeeds after the loss. The check then tests for how long
	// the name stays taken.
	{"Manager_Trap_T57_NothingRevivesALostLease", func(_ context.Context, e *suite.Env, _ *testManager) {
		for _, with := range []func(*faultyProvider){ignoringContexts, func(*faultyProvider) {}} {
			m := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short}}, with)
			name := e.Name()
			lease := m.get(name, nil)
			m.setFault(renews, func(x *exchange) error {
				if x.n > 1 {
					return errNoReply
				}
				return slowReply(e.Short * 8 / 10)(x) // sent at 0.6 of the TTL
			})
			<-lease.Done()
			e.Pause(e.Short / 2)
			m.isLost(lease, abstractions.LostExpired)
			e.IsFree(name)
		}
		// The manager leaves the name alone until the backend would have freed the name.
		m := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.1}})
		name := e.Name()
		lease := m.get(name, nil)
		m.setFault(renews, func(x *exchange) error {
			if x.n > 1 {
				return errNoReply
			}
			return lostReply(x)
		})
		<-lease.Done()
		e.Pause(e.Short / 20)
		isTaken(e, name, "who lost it may have noticed only now")
		e.Pause(e.Short / 10)
		e.IsFree(name)

		// Close waits until then as well.
		lease = m.get(e.Name(), nil)
		m.setFault(renews, lostReply)
		<-lease.Done()
		e.T.Go(func() { _ = m.Close(context.WithoutCancel(e.T.Context())) })
		e.Pause(e.Short / 20)
		isTaken(e, lease.Name(), "who lost it may have noticed only now")
	}},
	// In this check renewals get no answer until their contexts end.
	{"Manager_Trap_T58_AttemptsLeaveTimeForOthers", func(_ context.Context, e *suite.Env, _ *testManager) {
		for _, with := range []func(*faultyProvider){without(batches), func(*faultyProvider) {}} {
			m := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short}}, with)
			lease := m.get(e.Name(), nil)
			m.setFault(renews, onFirst(2, noAnswer))
			e.Pause(2 * e.Short)
			m.isAlive(lease)
			m.setFault(renews, noAnswer)
			e.Pause(2 * e.Short)
			m.isLost(lease, abstractions.LostExpired)
			e.GreaterOrEqual(len(m.requests(renews)), 3, "attempts while trust lasts")
		}
		// A few hundred hung renewals do not end other leases, and only a limited number hang at a time.
		for _, bad := range []int{200, 700} {
			m := manage(e, e.P, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: 10 * e.Short, RenewConcurrency: 2}}, without(batches))
			hung := map[string]bool{}
			var now atomic.Int64
			var tooMany atomic.Bool
			m.setFault(renews, func(x *exchange) error {
				if !hung[x.req.(abstractions.RenewRequest).Name] {
					return x.pass()
				}
				if now.Add(1) > 600 {
					tooMany.Store(true)
				}
				defer now.Add(-1)
				return noAnswer(x)
			})
			m.setFault(acquires, func(x *exchange) error { // granted without a request to the backend
				req := x.req.(abstractions.AcquireRequest)
				x.reply = abstractions.Grant{Name: req.Name, ID: req.ID, Token: 1, TTL: req.TTL}
				return nil
			})
			m.setFault(releases, func(*exchange) error { return nil })
			for range bad {
				name := e.Name()
				hung[name] = true
				m.get(name, nil)
			}
			m.setFault(acquires, nil)
			var good []*leasing.Lease
			for range 8 {
				good = append(good, m.get(e.Name(), nil))
			}
			e.Pause(e.Short / 4)
			last, begun := m.get(e.Name(), nil).Name(), time.Now() // due when the hung renewals are repeated
			e.Pause(11 * e.Short / 4)
			i := slices.IndexFunc(m.requests(renews), func(s sentRequest) bool { return s.req.(abstractions.RenewRequest).Name == last })
			e.GreaterOrEqual(i, 0)
			waited := m.requests(renews)[i].at.Sub(begun)
			m.setFault(renews, nil)
			if bad < 500 {
				e.LessOrEqual(waited, e.Short*61/100, "a renewal that is due while others hang")
			}
			e.False(tooMany.Load(), "more than 600 requests at a time to a backend that does not answer")
			for _, lease := range good {
				if bad < 500 {
					m.isAlive(lease)
				}
			}
		}
	}},
	// The check renews many leases, in batches if the provider is a
	// BatchRenewer. One lease is broken.
	{"Manager_Trap_T66_BatchReportsEachLease", func(_ context.Context, e *suite.Env, m *testManager) {
		leases := make([]*leasing.Lease, 300)
		for i := range leases {
			leases[i] = m.get(e.Name(), nil)
		}
		alive := func(except int) {
			for i, lease := range leases {
				if i != except {
					m.isAlive(lease)
				}
			}
		}
		e.Pause(3 * e.Short)
		alive(-1)
		e.Empty(m.events(leasing.EventRenewalFailed), "renewals that the backend has granted")
		e.Break(abstractions.BreakRequest{Name: leases[7].Name(), Immediate: true})
		e.Pause(e.Short)
		alive(7)
		m.isLost(leases[7], abstractions.LostBroken, abstractions.LostGone)
		e.Empty(m.events(leasing.EventRenewalFailed))

		if len(m.requests(batches)) > 0 {
			for _, err := range []error{&abstractions.LostError{Reason: abstractions.LostGone}, errNoReply} {
				m.setFault(batches, onFirst(1, refusal(err))) // the error does not say for which lease
				e.Pause(2 * e.Short)
				alive(7)
			}
			// A renewal that hangs does not fail the others of its batch.
			poison := leases[100].ID()
			m.setFault(batches, func(x *exchange) error {
				for _, req := range x.req.([]abstractions.RenewRequest) {
					if req.ID == poison {
						return noAnswer(x)
					}
				}
				return x.pass()
			})
			e.Pause(4 * e.Short)
			alive(7)
			m.setFault(batches, nil)
		}

		// A reply about another claim does not count as an answer.
		for what, change := range map[string]func(*abstractions.Grant){
			"another name": func(g *abstractions.Grant) { g.Name += "x" }, "another ID": func(g *abstractions.Grant) { g.ID = abstractions.NewID() },
			"another token": func(g *abstractions.Grant) { g.Token++ }, "no TTL": func(g *abstractions.Grant) { g.TTL = 0 },
		} {
			n := manage(e, e.P, leasing.Options{})
			lease := n.get(e.Name(), manual)
			n.setFault(renews, changedGrant(change))
			e.ErrorIs(lease.Renew(e.T.Context()), abstractions.ErrUnavailable, what)
		}
	}},
	// The check loses the first renewals. The next renewal is slow.
	{"Manager_Trap_T85_TrustAfterFailedRenewals", func(_ context.Context, e *suite.Env, m *testManager) {
		for _, lost := range []fault{lostRequest, lostReply} {
			lease := m.get(e.Name(), nil)
			m.setFault(renews, func(x *exchange) error {
				switch x.n {
				case 1, 2:
					return lost(x)
				case 3:
					return slowReply(e.Short / 20)(x)
				}
				return errNoReply
			})
			<-lease.Done()
			m.isLostBy(lease, m.requests(renews)[2].at, e.Short, abstractions.LostExpired)

			lease = m.get(e.Name(), nil) // without a successful renewal
			m.setFault(renews, lost)
			begun := time.Now()
			m.isLostBy(lease, begun, e.Short, abstractions.LostExpired)
			sent := m.requests(renews)
			e.GreaterOrEqual(len(sent), 3, "attempts while trust lasts")
			e.GreaterOrEqual(sent[len(sent)-1].at.Sub(begun), e.Short*95/100, "attempts until it ends")
		}
		for i, event := range m.events(leasing.EventRenewalFailed)[:2] {
			e.Equal(i+1, event.Attempt, "the attempts are counted")
			e.True(event.WillRetry)
		}
		e.Len(m.events(leasing.EventLost), 4, "one event for each loss")
	}},
	{"Manager_InfiniteLeaseIsVerified", func(_ context.Context, e *suite.Env, m *testManager) {
		if !e.Caps.Infinite {
			e.LeaveOut("no infinite leases here")
		}
		infinite := &leasing.AcquireOptions{TTL: leasing.Infinite}
		sent := time.Now()
		m.setFault(renews, lostRequest)
		m.isLostBy(m.get(e.Name(), infinite), sent, e.Short, abstractions.LostExpired) // an infinite lease begins as a finite one

		m.setFault(renews, nil)
		lease := m.get(e.Name(), infinite)
		e.WaitIdle()
		e.Equal(leasing.Infinite, lease.TTL())
		m.setFault(renews, onFirst(3, lostRequest))
		e.Pause(20 * e.Short)
		m.isAlive(lease)
		e.Break(abstractions.BreakRequest{Name: lease.Name(), Grace: 2 * e.Short})
		e.Pause(e.Short)
		m.isLost(lease, abstractions.LostBroken, abstractions.LostGone)
	}},
	// In this check leases have different TTLs, and some end during the check.
	{"Manager_ManyLeasesAreRenewedInTime", func(_ context.Context, e *suite.Env, m *testManager) {
		held := map[*leasing.Lease]bool{}
		for i := range 64 {
			held[m.get(e.Name(), &leasing.AcquireOptions{TTL: e.Short + time.Duration(i*i%37)*e.Short/8})] = true
		}
		for lease := range held {
			e.Pause(e.Short / 16)
			if len(held) > 24 {
				delete(held, lease)
				e.NoError(lease.Release(e.T.Context()))
			}
		}
		e.Pause(10 * e.Short)
		for lease := range held {
			m.isAlive(lease)
		}
	}},
	{"Manager_Trap_T260_AnotherTTL", func(ctx context.Context, e *suite.Env, m *testManager) {
		lease := m.get(e.Name(), nil)
		longer := 2 * lease.TTL()
		if most := e.P.Capabilities().MaxTTL; most > 0 {
			longer = min(longer, most)
		}
		e.NoError(lease.SetTTL(ctx, longer))
		e.Equal(longer, lease.TTL())
		e.NoError(lease.Context().Err(), "the work goes on")
		m.setFault(renews, lostReply)
		shorter := e.Short
		e.Error(lease.SetTTL(ctx, shorter))
		e.LessOrEqual(lease.Remaining(), shorter, "the backend may have shortened the lease")
		m.setFault(renews, nil)
		e.NoError(lease.SetTTL(ctx, longer))
		e.LessOrEqual(lease.Remaining(), shorter, "the reply was lost, or the request was delayed")
		e.NoError(lease.Release(ctx))
	}},
	{"Manager_RenewalLimit", func(_ context.Context, e *suite.Env, m *testManager) {
		lease := m.get(e.Name(), &leasing.AcquireOptions{MaxRenewals: 2})
		<-lease.Done()
		sent := m.requests(renews)
		e.Len(sent, 2)
		m.isLostBy(lease, sent[1].at, e.Short, abstractions.LostRenewalLimit)
		lease = m.get(e.Name(), &leasing.AcquireOptions{MaxRenewals: 1, NoAutoRenew: true})
		e.NoError(lease.Renew(e.T.Context()))
		e.ErrorIs(lease.Renew(e.T.Context()), abstractions.ErrInvalid)
	}},
	// In this check the backend asks for a pause: a short one, and one that is longer than trust lasts.
	{"Manager_WhatIsThrottledWaits", func(_ context.Context, e *suite.Env, m *testManager) {
		for _, ask := range []time.Duration{e.Short / 10, time.Hour} {
			lease := m.get(fmt.Sprint(e.Name(), ask), nil)
			m.setFault(renews, onFirst(1, refusal(&abstractions.ThrottledError{RetryAfter: ask})))
			e.Pause(2 * e.Short)
			m.isAlive(lease)
			sent := m.requests(renews)
			e.GreaterOrEqual(sent[1].at.Sub(sent[0].at), min(ask, e.Short/10))
			e.NoError(lease.Release(e.T.Context()))
		}
	}},
}

var manual = &leasing.AcquireOptions{NoAutoRenew: true}
