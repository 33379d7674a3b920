package managersuite

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var waitingChecks = []managerCheck{
	{"Manager_WaitersAreServedInOrder", func(ctx context.Context, e *suite.Env, _ *testManager) {
		for _, with := range []func(*faultyProvider){without(waits), func(*faultyProvider) {}} {
			m := manage(e, e.P, leasing.Options{}, with)
			holder := e.Take(e.Name())
			var registered []context.Context
			m.setFault(waits, func(x *exchange) error {
				registered = append(registered, x.ctx)
				return x.pass()
			})
			var waiting []<-chan acquireResult
			for range 6 {
				waiting = append(waiting, m.acquire(ctx, holder.Req.Name, nil))
				e.WaitIdle()
			}
			holder.Release()
			last := holder.Token()
			for _, next := range waiting {
				got := within(e, 5*time.Second, next, "the next in the queue")
				e.NoError(got.err)
				e.Greater(got.lease.Token(), last)
				last = got.lease.Token()
				e.Pause(10 * time.Millisecond)
				e.NoError(got.lease.Release(ctx))
			}
			again, err := m.Acquire(ctx, holder.Req.Name) // which may register first, since others have had the name
			e.NoError(err)
			e.NoError(again.Release(ctx))
			for _, registration := range registered {
				e.Error(registration.Err(), "a registration ends with its wait")
			}
			owners := map[string]string{}
			for _, acquire := range m.requests(acquires) {
				owners[acquire.req.(abstractions.AcquireRequest).ID] = acquire.req.(abstractions.AcquireRequest).Owner
			}
			for _, wait := range m.requests(waits) {
				req := wait.req.(abstractions.WaitRequest)
				e.NotEmpty(req.Owner)
				e.Equal(owners[req.ID], req.Owner, "who waits is registered as it asks")
			}
		}
	}},
	{"Manager_ReleaseWakesAWaiter", func(ctx context.Context, e *suite.Env, _ *testManager) {
		// A release by the same manager wakes a waiter, whether or not the provider sends
		// wake-ups.
		m := manage(e, e.P, noPolling, without(waits))
		lease := m.get(e.Name(), nil)
		next := m.acquire(ctx, lease.Name(), nil)
		e.WaitIdle()
		e.NoError(lease.Release(ctx))
		e.NoError(within(e, time.Second, next, "a waiter of the manager that has released").err)

		// The end of a lease that runs out wakes a waiter, if the provider reports the end.
		if e.Caps.RemainingKnown {
			holder := e.TakeShort()
			got := within(e, 2*e.Short, m.acquire(ctx, holder.Req.Name, nil), "a lease that runs out")
			e.NoError(got.err)
			e.Less(got.at.Sub(holder.LatestEnd()), time.Second, "after the lease has run out")
		}

		// A release by another client wakes a waiter, if the provider sends wake-ups.
		suite.Ability[abstractions.Waiter](e, e.P)
		m = manage(e, e.P, noPolling)
		holder := e.Take(e.Name())
		next = m.acquire(ctx, holder.Req.Name, nil)
		e.WaitIdle()
		holder.Release()
		e.NoError(within(e, time.Second, next, "a release").err)

		// A release just before the waiter's registration also wakes the waiter.
		holder = e.Take(e.Name())
		m.setFault(waits, func(x *exchange) error {
			holder.Release()
			return x.pass()
		})
		e.NoError(within(e, time.Second, m.acquire(ctx, holder.Req.Name, nil), "a release before the registration").err)
	}},
	{"Manager_WaitEndsAsItWasAskedTo", func(ctx context.Context, e *suite.Env, m *testManager) {
		holder := e.Take(e.Name())
		name := holder.Req.Name
		begun := time.Now()
		e.ErrorIs(m.try(ctx, name), abstractions.ErrHeld, "TryAcquire")
		e.Less(time.Since(begun), 100*time.Millisecond, "TryAcquire asks once")

		// A wait ends with its limit, at the head of the queue and behind the head waiter.
		limited := &leasing.AcquireOptions{WaitLimit: 1300 * time.Millisecond}
		m.setFault(acquires, nil)
		leaves, leave := context.WithCancel(ctx)
		for range 2 {
			begun = time.Now()
			got := within(e, 5*time.Second, m.acquire(ctx, name, limited), "the limit of a wait")
			e.Less(got.at.Sub(begun), 2*time.Second, "the limit of a wait")
			held := heldBy(e, got.err)
			e.Equal(holder.Token(), held.Holder.Token, "what stood in the way")
			m.acquire(leaves, name, nil) // without a limit
			e.WaitIdle()
		}
		leave()
		claims := map[string]bool{}
		for _, acquire := range m.requests(acquires) {
			claims[acquire.req.(abstractions.AcquireRequest).ID] = true
		}
		e.Len(claims, 3, "each has asked, at least once")

		// A wait ends with its context, even in the middle of a request.
		for _, b := range []fault{nil, noAnswer} {
			m.setFault(acquires, b)
			caller, cancel := context.WithTimeout(ctx, 1300*time.Millisecond)
			head := m.acquire(caller, name, nil)
			e.WaitIdle()
			behind := m.acquire(caller, name, nil)
			for _, done := range []<-chan acquireResult{head, behind} {
				got := within(e, 1400*time.Millisecond, done, "the end of a wait's context")
				e.ErrorIs(got.err, context.DeadlineExceeded)
				if b == nil && done == head {
					heldBy(e, got.err)
				}
			}
			cancel()
		}

		// A wait ends with its context, even if the context ends just as the answer comes.
		ending, end := context.WithCancel(ctx)
		m.setFault(acquires, func(x *exchange) error {
			defer end()
			return x.pass()
		})
		_, err := m.Acquire(ending, name)
		e.ErrorIs(err, context.Canceled)
		e.Equal(holder.Token(), heldBy(e, err).Holder.Token, "what stood in the way")

		// A wait ends when its manager is closed.
		m.setFault(acquires, nil)
		own := m.get(e.Name(), nil)
		head, behind := m.acquire(ctx, name, nil), m.acquire(ctx, name, nil)
		short, cancel := context.WithTimeout(ctx, 1300*time.Millisecond)
		_, err = m.Acquire(short, own.Name())
		cancel()
		e.True(heldBy(e, err).ByThisManager, "the holder is one of the manager's own")
		e.ErrorIs(m.try(ctx, own.Name()), abstractions.ErrHeld)
		_, err = m.TryAcquire(ctx, own.Name())
		e.True(heldBy(e, err).ByThisManager, "the holder is one of the manager's own")
		leaves, leave = context.WithCancel(ctx)
		next := m.acquire(ctx, own.Name(), nil)
		e.WaitIdle()
		first := m.acquire(leaves, own.Name(), nil)
		e.WaitIdle()
		unasked := m.acquire(ctx, own.Name(), &leasing.AcquireOptions{WaitLimit: 100 * time.Millisecond})
		e.WaitIdle()
		e.NoError(own.Release(ctx))
		own = within(e, time.Second, next, "who waits in the same manager").lease
		leave()
		e.ErrorIs(within(e, time.Second, first, "who leaves").err, context.Canceled)
		e.True(heldBy(e, within(e, time.Second, unasked, "who has not asked when its limit passes").err).ByThisManager)
		e.NoError(own.Release(ctx))
		closed := begin(e, func() error { return m.Close(ctx) })
		for _, done := range []<-chan acquireResult{head, behind} {
			e.ErrorIs(within(e, time.Second, done, "the end of the manager").err, abstractions.ErrClosed)
		}
		e.NoError(within(e, time.Second, closed, "Close"))
	}},
	{"Manager_Trap_T31_OutageDoesNotEndAWait", func(ctx context.Context, e *suite.Env, m *testManager) {
		name := e.Name()
		m.setFault(acquires, onFirst(5, lostRequest))
		got := within(e, 10*time.Second, m.acquire(ctx, name, nil), "the end of an outage")
		e.NoError(got.err)
		e.NotEmpty(m.events(leasing.EventAcquireFailed), "observers learn that the backend does not answer")
		e.NoError(got.lease.Release(ctx))

		m.setFault(acquires, onFirst(2, refusal(&abstractions.ThrottledError{RetryAfter: 7 * time.Second})))
		got = within(e, time.Minute, m.acquire(ctx, name, nil), "a backend that asked for a pause")
		e.NoError(got.err)
		sent := m.requests(acquires)
		e.GreaterOrEqual(sent[1].at.Sub(sent[0].at), 7*time.Second, "the pause that it asked for")
		e.NoError(got.lease.Release(ctx))

		m.setFault(acquires, onFirst(1, refusal(&abstractions.ThrottledError{RetryAfter: 24 * time.Hour})))
		got = within(e, 5*time.Minute, m.acquire(ctx, name, nil), "a backend that asked for a day")
		e.NoError(got.err)
		e.NoError(got.lease.Release(ctx))

		for _, err := range []error{abstractions.ErrNotSetUp, abstractions.ErrInvalid} {
			m.setFault(acquires, refusal(err))
			e.ErrorIs(within(e, time.Second, m.acquire(ctx, name, nil), "the end of a wait that can't succeed").err, err)
		}
	}},
	{"Manager_Trap_T187_ARefusalThatPassesEndsNoWait", func(ctx context.Context, e *suite.Env, m *testManager) {
		name := e.Name()
		m.setFault(acquires, onFirst(4, refusal(abstractions.ErrDenied)))
		got := within(e, 20*time.Second, m.acquire(ctx, name, nil), "the end of a refusal")
		e.NoError(got.err)
		for _, event := range m.events(leasing.EventAcquireFailed) {
			e.ErrorIs(event.Err, abstractions.ErrDenied)
		}
		e.NoError(got.lease.Release(ctx))

		m.setFault(acquires, refusal(abstractions.ErrDenied))
		_, err := m.TryAcquire(ctx, name)
		e.ErrorIs(err, abstractions.ErrDenied)
		begun := time.Now()
		e.ErrorIs(within(e, 2*time.Minute, m.acquire(ctx, name, nil), "the end of a wait that is always refused").err, abstractions.ErrDenied)
		e.GreaterOrEqual(time.Since(begun), time.Minute, "Options.RefusalTimeout")
	}},
	{"Manager_Trap_T32_WakeupsMayBeLost", func(_ context.Context, e *suite.Env, m *testManager) {
		suite.Ability[abstractions.Waiter](e, e.P)
		ctx := e.T.Context()
		m.setFault(waits, func(x *exchange) error {
			err := x.pass()
			x.reply = abstractions.Wakeups{C: make(chan struct{}, 1)}
			return err
		})
		holder := e.Take(e.Name())
		next := m.acquire(ctx, holder.Req.Name, nil)
		e.Pause(time.Second)
		holder.Release()
		e.NoError(within(e, 20*time.Second, next, "a release without a wake-up").err)
		m.setFault(waits, func(x *exchange) error { // the provider ends the registration
			err := x.pass()
			ended := make(chan struct{})
			close(ended)
			x.reply = abstractions.Wakeups{C: ended}
			return err
		})
		holder = e.Take(e.Name())
		next = m.acquire(ctx, holder.Req.Name, nil)
		e.Pause(time.Second)
		holder.Release()
		e.NoError(within(e, 2*time.Second, next, "a release, for a waiter that polls").err)
		m.setFault(waits, lostRequest)
		holder = e.Take(e.Name())
		next = m.acquire(ctx, holder.Req.Name, nil)
		e.Pause(time.Second)
		holder.Release()
		e.NoError(within(e, 2*time.Second, next, "a release, for a waiter that polls").err)
	}},
	// In this check the first waiter leaves in the middle of a request, which is
	// applied nevertheless.
	{"Manager_Trap_T60_HeadThatLeavesBlocksNobody", func(ctx context.Context, e *suite.Env, _ *testManager) {
		m := manage(e, e.P, noPolling, without(waits))
		name := e.Name()
		leaves, cancel := context.WithCancel(ctx)
		m.setFault(acquires, onFirst(1, func(x *exchange) error {
			e.Pause(time.Second)
			cancel()
			x.ctx = context.WithoutCancel(x.ctx)
			return lostReply(x)
		}))
		head := m.acquire(leaves, name, nil)
		e.WaitIdle()
		next := m.acquire(ctx, name, nil)
		e.WaitIdle()
		third := m.acquire(ctx, name, nil)
		e.ErrorIs(within(e, 2*time.Second, head, "the one that leaves").err, context.Canceled)
		for _, done := range []<-chan acquireResult{next, third} {
			got := within(e, time.Second, done, "the next in the queue")
			e.NoError(got.err)
			e.NoError(got.lease.Release(ctx))
		}
		e.IsFree(name)
	}},
	{"Manager_Trap_T62_LeaseOutlivesTheWait", func(_ context.Context, e *suite.Env, m *testManager) {
		ctx, cancel := context.WithCancel(context.WithValue(e.T.Context(), contextKey{}, "value"))
		lease, err := m.Acquire(ctx, e.Name())
		e.NoError(err)
		cancel()
		e.Pause(2 * e.Short)
		m.isAlive(lease)
		e.Equal("value", lease.Context().Value(contextKey{}), "the values of the acquire's context")
	}},
	// In this check two managers poll, and each acquires the name in a loop.
	{"Manager_Trap_T72_LoopStarvesNobody", func(_ context.Context, e *suite.Env, _ *testManager) {
		ctx, cancel := context.WithTimeout(e.T.Context(), 15*time.Second)
		defer cancel()
		name := e.Name()
		loop := func(p abstractions.Provider) <-chan time.Duration {
			m := manage(e, p, leasing.Options{}, without(waits))
			return begin(e, func() (longest time.Duration) {
				for {
					begun := time.Now()
					lease, err := m.Acquire(ctx, name)
					longest = max(longest, time.Since(begun))
					if err != nil {
						e.ErrorIs(err, context.DeadlineExceeded)
						return longest
					}
					e.Pause(20 * time.Millisecond)
					e.NoError(lease.Release(context.WithoutCancel(ctx)))
				}
			})
		}
		for _, longest := range []<-chan time.Duration{loop(e.P), loop(e.Peer)} {
			e.Less(<-longest, 5*time.Second, "the longest wait for a name that another takes again and again")
		}
	}},
}

// acquire waits for a name in another goroutine.
func (m *testManager) acquire(ctx context.Context, name string, o *leasing.AcquireOptions) <-chan acquireResult {
	return begin(m.e, func() (got acquireResult) {
		got.lease, got.err = m.with(o).Acquire(ctx, name)
		got.at = time.Now()
		return got
	})
}

// acquireResult is the result of an Acquire, and its time.
type acquireResult struct {
	lease *leasing.Lease
	err   error
	at    time.Time
}

// noPolling has options that let only a wake-up, or the known end of the holder's lease, wake a waiter.
var noPolling = leasing.Options{Tuning: leasing.Tuning{MinPoll: time.Hour, MaxPoll: time.Hour}}

func heldBy(e *suite.Env, err error) *abstractions.HeldError {
	var held *abstractions.HeldError
	e.ErrorAs(err, &held)
	return held
}

type contextKey struct{}
