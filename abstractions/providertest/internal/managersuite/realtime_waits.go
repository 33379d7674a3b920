package managersuite

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var realWaitingChecks = []managerCheck{
	{"WaitersAreServedInOrder", func(ctx context.Context, e *suite.Env, _ *testManager) {
		for _, with := range []func(*faultyProvider){without(waits), func(*faultyProvider) {}} {
			counts := &countingProvider{}
			m := manage(e, e.P, leasing.Options{TTL: e.Long, MeterProvider: counts}, with)
			holder := e.Take(e.Name())
			name := holder.Req.Name
			var waiting []<-chan acquireResult
			leaves, leave := context.WithCancel(ctx)
			for i := range 5 {
				waitCtx := ctx
				if i == 2 {
					waitCtx = leaves
				}
				waiting = append(waiting, m.acquire(waitCtx, name, nil))
				e.Await(fmt.Sprintf("%d wait", i+1), func() bool { return counts.sum("leasing.waiters") == int64(i+1) })
			}
			claims := map[string]bool{}
			for _, acquire := range m.requests(acquires) {
				claims[acquire.req.(abstractions.AcquireRequest).ID] = true
			}
			e.Len(claims, 1, "the head alone asks the backend")
			leave()
			e.ErrorIs(within(e, e.Slack, waiting[2], "who leaves").err, context.Canceled)
			waiting = slices.Delete(waiting, 2, 3)
			holder.Release()
			last := holder.Token()
			for i, next := range waiting {
				got := within(e, 2*e.Slack, next, "the next in the queue")
				e.NoError(got.err)
				e.Greater(got.lease.Token(), last)
				last = got.lease.Token()
				isTaken(e, name, "a waiter has it")
				for _, later := range waiting[i+1:] {
					e.Empty(later, "who came later is served later")
				}
				e.NoError(got.lease.Release(ctx))
			}
			e.Await("nobody waits", func() bool { return counts.sum("leasing.waiters") == 0 })
		}
	}},
	// In this check waiters hardly ever poll, so only a release wakes a waiter.
	{"AReleaseWakesAWaiter", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, noPolling, without(waits))
		lease := m.get(e.Name(), longOptions(e))
		_, err := m.TryAcquire(ctx, lease.Name())
		e.True(heldBy(e, err).ByThisManager, "the holder is one of the manager's own")
		next := m.acquire(ctx, lease.Name(), nil)
		e.Pause(50 * time.Millisecond)
		e.Empty(next, "a lease is not reentrant")
		e.NoError(lease.Release(ctx))
		e.NoError(within(e, e.Slack, next, "a waiter of the manager that has released").err)
		if e.Caps.RemainingKnown {
			req := e.ShortRequest(e.Name())
			e.Acquire(e.P, req)
			e.NoError(within(e, e.Short+e.Caps.Lateness.After(e.Short)+e.Slack, m.acquire(ctx, req.Name, nil), "a lease that runs out").err)
		}
		if _, ok := abstractions.As[abstractions.Waiter](e.P); ok {
			m = manage(e, e.P, noPolling)
			holder := e.Take(e.Name())
			next = m.acquire(ctx, holder.Req.Name, nil)
			e.Await("the waiter registers", func() bool { return len(m.requests(waits)) > 0 })
			holder.Release()
			e.NoError(within(e, e.Slack, next, "a release by another client").err)
		}
	}},
	{"AWaitEndsAsItWasAskedTo", func(ctx context.Context, e *suite.Env, m *testManager) {
		holder := e.Take(e.Name())
		name := holder.Req.Name
		m.setFault(acquires, nil)
		e.ErrorIs(m.try(ctx, name), abstractions.ErrHeld)
		e.Len(m.requests(acquires), 1, "TryAcquire asks once")

		limit := time.Second
		limited := &leasing.AcquireOptions{WaitLimit: limit}
		retryOnStall(e, func() error {
			begun := time.Now()
			head, behind := m.acquire(ctx, name, limited), m.acquire(ctx, name, limited)
			for _, done := range []<-chan acquireResult{head, behind} {
				got := within(e, e.Slack, done, "the limit of a wait")
				e.GreaterOrEqual(got.at.Sub(begun), limit)
				if !errors.Is(got.err, abstractions.ErrHeld) {
					return fmt.Errorf("a wait to its limit: %w", got.err)
				}
				e.Equal(holder.Token(), heldBy(e, got.err).Holder.Token, "the obstacle")
			}
			return nil
		})
		for _, b := range []fault{nil, noAnswer} {
			m.setFault(acquires, b)
			caller, cancel := context.WithTimeout(ctx, limit)
			e.ErrorIs(within(e, e.Slack, m.acquire(caller, name, nil), "the end of a wait's context").err, context.DeadlineExceeded)
			cancel()
		}
		for _, err := range []error{abstractions.ErrNotSetUp, abstractions.ErrInvalid} {
			m.setFault(acquires, refusal(err))
			e.ErrorIs(within(e, e.Slack, m.acquire(ctx, e.Name(), nil), "the end of a wait that can't succeed").err, err)
		}
		m.setFault(acquires, nil)
		head, behind := m.acquire(ctx, name, nil), m.acquire(ctx, name, nil)
		e.Await("the head asks", func() bool { return len(m.requests(acquires)) > 0 })
		closed := begin(e, func() error { return m.Close(ctx) })
		for _, done := range []<-chan acquireResult{head, behind} {
			e.ErrorIs(within(e, e.Slack, done, "the end of the manager").err, abstractions.ErrClosed)
		}
		e.NoError(within(e, e.Slack, closed, "Close"))
		holder.IsHeld()
	}},
	{"AnOutageEndsNoWait", func(ctx context.Context, e *suite.Env, m *testManager) {
		for _, b := range []fault{lostRequest, refusal(abstractions.ErrDenied), refusal(&abstractions.ThrottledError{})} {
			m.setFault(acquires, onFirst(2, b))
			got := within(e, 2*e.Slack, m.acquire(ctx, e.Name(), longOptions(e)), "the end of an outage")
			e.NoError(got.err)
			e.GreaterOrEqual(len(m.requests(acquires)), 3)
			for _, acquire := range m.requests(acquires) {
				e.Equal(got.lease.ID(), acquire.req.(abstractions.AcquireRequest).ID, "one claim has one ID, over all its requests")
			}
			e.NoError(got.lease.Release(ctx))
			e.IsFree(got.lease.Name())
		}
		e.Await("an event reports that the backend does not answer", func() bool { return len(m.eventLog.events(leasing.EventAcquireFailed)) > 0 })

		// The manager respects a pause that the backend asks for.
		pause := 200 * time.Millisecond
		m.setFault(acquires, onFirst(1, refusal(&abstractions.ThrottledError{RetryAfter: pause})))
		e.NoError(within(e, 2*e.Slack, m.acquire(ctx, e.Name(), longOptions(e)), "a backend that asked for a pause").err)
		sent := m.requests(acquires)
		e.GreaterOrEqual(sent[1].at.Sub(sent[0].at), pause)
	}},
	// In this check the first waiter leaves in the middle of a request that is applied.
	{"AHeadThatLeavesBlocksNobody", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, leasing.Options{TTL: e.Long, NoAutoRenew: true}, without(waits))
		name := e.Name()
		leaves, leave := context.WithCancel(ctx)
		requested := make(chan struct{})
		m.setFault(acquires, onFirst(1, func(x *exchange) error {
			close(requested)
			<-leaves.Done()
			x.ctx = context.WithoutCancel(x.ctx)
			return lostReply(x)
		}))
		head := m.acquire(leaves, name, nil)
		within(e, e.Slack, requested, "the first request")
		next, third := m.acquire(ctx, name, nil), m.acquire(ctx, name, nil)
		leave()
		e.ErrorIs(within(e, e.Slack, head, "the one that leaves").err, context.Canceled)
		var last int64
		for range 2 {
			var got acquireResult
			select {
			case got = <-next:
			case got = <-third:
			case <-time.After(2 * e.Slack):
				e.Fail("no waiter follows the head waiter that has left")
			}
			e.NoError(got.err)
			e.Greater(got.lease.Token(), last)
			last = got.lease.Token()
			e.NoError(got.lease.Release(ctx))
		}
		e.IsFree(name)
	}},
	{"TokensRise", func(ctx context.Context, e *suite.Env, m *testManager) {
		name, other := e.Name(), manageWithoutBatches(e, e.Peer)
		last := int64(0)
		next := func(after string, m *testManager, o *leasing.AcquireOptions) *leasing.Lease {
			got := within(e, 2*e.Short+e.Caps.Lateness.After(e.Short)+2*e.Slack, m.acquire(ctx, name, o), "a lease after "+after)
			e.NoError(got.err)
			e.Greater(got.lease.Token(), last, "the token after "+after)
			last = got.lease.Token()
			return got.lease
		}
		lease := next("nothing", m, longOptions(e))
		e.NoError(lease.Renew(ctx))
		e.Equal(last, lease.Token(), "a renewal keeps the token")
		e.NoError(lease.Release(ctx))
		lease = next("a release", other, longOptions(e))
		_, err := m.Break(ctx, name, leasing.BreakOptions{Immediate: true})
		e.NoError(err)
		taken := next("a break", m, manual) // without renewals
		other.awaitReportedLoss(lease)
		lease = next("its end", other, longOptions(e))
		e.ErrorIs(taken.Err(), abstractions.ErrLost)
		e.NoError(lease.Release(ctx))
		m.setFault(acquires, lostReply)
		e.Error(m.try(ctx, name))
		m.setFault(acquires, nil)
		e.NoError(next("an acquire that is cleaned up", m, longOptions(e)).Release(ctx))
	}},
}

var realReportChecks = []managerCheck{
	// In this check observers are slow, panic, or have unsubscribed.
	{"EventsComeInOrder", func(ctx context.Context, e *suite.Env, _ *testManager) {
		retryOnStall(e, func() error {
			m := manageWithoutBatches(e, e.P)
			var own, slow, left eventLog
			m.Subscribe(func(event leasing.Event) {
				e.Pause(20 * time.Millisecond)
				slow.observe(event)
			})
			m.Subscribe(func(leasing.Event) { panic("an observer") })
			m.Subscribe(left.observe)()
			m.setFault(renews, onFirst(2, lostRequest))
			begun := time.Now()
			lease, err := m.With(leasing.AcquireOptions{Observer: own.observe}).TryAcquire(e.T.Context(), e.Name())
			if err != nil {
				return err
			}
			for end := begun.Add(3 * e.Short); lease.Err() == nil && lease.Renewals() < 2 && time.Now().Before(end); {
				e.Pause(e.Short / 100)
			}
			if err := lease.Release(ctx); err != nil {
				return err
			}
			lost, err := m.With(*longOptions(e)).TryAcquire(e.T.Context(), e.Name())
			if err != nil {
				return err
			}
			e.Break(abstractions.BreakRequest{Name: lost.Name(), Actor: "operator", Reason: "it hangs", Immediate: true})
			m.awaitReportedLoss(lost)
			e.NoError(m.Close(ctx)) // until every event has been delivered

			want := []leasing.EventKind{leasing.EventAcquired, leasing.EventRenewalFailed, leasing.EventRenewed, leasing.EventReleased}
			for _, log := range []*eventLog{&own, &slow, &m.eventLog} {
				var kinds []leasing.EventKind
				attempts := 0
				for _, event := range log.events() {
					if event.Name != lease.Name() {
						continue
					}
					kinds = append(kinds, event.Kind)
					e.Equal(abstractions.FingerprintOf(lease.ID()), event.Fingerprint)
					e.Equal(lease.Token(), event.Token)
					if event.Kind == leasing.EventRenewalFailed {
						if event.Attempt <= attempts {
							return fmt.Errorf("attempt %d after attempt %d", event.Attempt, attempts)
						}
						attempts = event.Attempt
						e.ErrorIs(event.Err, abstractions.ErrUnavailable)
						e.True(event.WillRetry)
					}
				}
				if kinds = slices.Compact(kinds); !slices.Equal(kinds, want) || attempts != 2 { // events of a kind may be merged
					return fmt.Errorf("events %v of %v, and %d failures of 2", kinds, want, attempts)
				}
			}
			e.Empty(left.events(), "events for an observer that has unsubscribed")
			ends := m.eventLog.events(leasing.EventLost)
			e.Len(ends, 1)
			e.Equal(abstractions.FingerprintOf(lost.ID()), ends[0].Fingerprint)
			e.Len(m.eventLog.events(leasing.EventReleased), 1, "a lost lease is not released")
			var broken *abstractions.LostError
			e.ErrorAs(lost.Err(), &broken)
			e.Equal(broken.Reason, ends[0].Reason)
			e.Equal([]string{broken.BrokenBy, broken.BreakReason}, []string{ends[0].BrokenBy, ends[0].BreakReason})
			return nil
		})
	}},
	{"MetadataIsSeen", func(ctx context.Context, e *suite.Env, m *testManager) {
		one, two := map[string]string{"n": "1"}, map[string]string{"n": "2"}
		given := map[string]string{"n": "1"}
		lease := m.get(e.Name(), &leasing.AcquireOptions{Metadata: given, TTL: e.Long, NoAutoRenew: true})
		given["n"] = "changed"
		shows := func(want map[string]string) {
			lease.Metadata()["n"] = "changed"
			e.Equal(want, lease.Metadata())
			e.Equal(want, e.Inspect(lease.Name()).Metadata)
		}
		shows(one)
		e.NoError(lease.SetMetadata(ctx, two))
		shows(two)
		e.NoError(lease.Renew(ctx))
		shows(two)

		// A change that the backend refuses does not end the lease.
		m.setFault(renews, func(x *exchange) error {
			if x.req.(abstractions.RenewRequest).Metadata != nil {
				return abstractions.ErrInvalid
			}
			return x.pass()
		})
		e.ErrorIs(lease.SetMetadata(ctx, map[string]string{"n": "too much"}), abstractions.ErrInvalid)
		e.NoError(lease.Renew(ctx))
		shows(two)

		// A later renewal repeats a change whose request was lost.
		m.setFault(renews, onFirst(1, lostRequest))
		changed := map[string]string{"n": "3"}
		if err := lease.SetMetadata(ctx, changed); err != nil {
			e.ErrorIs(err, abstractions.ErrUnavailable)
			e.NoError(lease.Renew(ctx))
		}
		shows(changed)

		// The metadata is removed with its holder's lease.
		e.NoError(lease.Release(ctx))
		next := m.get(lease.Name(), longOptions(e))
		e.Empty(e.Inspect(next.Name()).Metadata)
		e.NoError(next.Release(ctx))
	}},
	{"CountsReturnToZero", func(ctx context.Context, e *suite.Env, _ *testManager) {
		counts := &countingProvider{}
		m := manage(e, e.P, leasing.Options{MeterProvider: counts, TTL: e.Long, NoAutoRenew: true})
		are := func(active, waiters int64) {
			e.Await(fmt.Sprintf("%d active, %d waiting", active, waiters), func() bool {
				return counts.sum("leasing.active.count") == active && counts.sum("leasing.waiters") == waiters
			})
		}
		released, broken := m.get(e.Name(), nil), m.get(e.Name(), nil)
		leaves, leave := context.WithCancel(ctx)
		gaveUp := m.acquire(leaves, e.Take(e.Name()).Req.Name, nil)
		are(2, 1)
		leave()
		within(e, e.Slack, gaveUp, "who leaves")
		are(2, 0)
		e.NoError(released.Release(ctx))
		are(1, 0)
		e.Break(abstractions.BreakRequest{Name: broken.Name(), Immediate: true})
		e.Error(broken.Renew(ctx))
		are(0, 0)
		m.setFault(acquires, lostReply)
		m.setFault(releases, lostRequest)
		e.ErrorIs(m.try(ctx, e.Name()), abstractions.ErrUnavailable)
		e.Await("a claim is to be cleaned up", func() bool { return counts.sum("leasing.cleanups") > 0 })
		m.setFault(releases, nil)
		e.NoError(m.Close(ctx))
		are(0, 0)
		e.Zero(counts.sum("leasing.cleanups"))
	}},
}
