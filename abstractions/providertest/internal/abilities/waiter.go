package abilities

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var waiterChecks = []suite.Check{
	{Name: "Wait_ReleaseWakesAWaiter", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		w := e.Wait(e.Peer, holder.Req.Name)
		e.IsRefused(holder.Req.Name)
		holder.Release()
		w.IsWoken()
		w.Acquire().IsHeld()
		select {
		case _, open := <-w.Wakeups:
			e.True(open, "closed while its context lives")
		default:
		}
	}},
	{Name: "Wait_BreakWakesAWaiter", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		w := e.Wait(e.Peer, holder.Req.Name)
		e.Break(abstractions.BreakRequest{Name: holder.Req.Name, Immediate: true})
		w.IsWoken()
		w.TakeTurn().IsHeld()
	}},
	{Name: "Wait_ManyAreServedOneAfterTheOther", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		const waiters = 8
		served := make(chan *suite.Claim, waiters)
		for i := range waiters {
			w := e.Wait(e.Either(i), holder.Req.Name)
			e.T.Go(func() { served <- w.TakeTurn() })
		}
		last := holder
		for range waiters {
			last.Release()
			var next *suite.Claim
			select {
			case next = <-served:
			case <-time.After(2 * e.Slack):
				e.Fail("a waiter is not served")
			}
			e.Greater(next.Token(), last.Token())
			last = next
		}
		last.IsHeld()
	}},
	{Name: "Wait_ALeavingWaiterBlocksNobody", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		head := e.Wait(e.Peer, holder.Req.Name)
		next := e.Wait(e.Peer, holder.Req.Name)
		head.Leave()
		if e.Virtual { // in virtual time, wait until the waiter has left
			e.WaitIdle()
		}
		holder.Release()
		if e.Virtual {
			next.IsWoken()
		}
		next.TakeTurn().Release()

		again := e.Take(e.Name())
		head, next = e.Wait(e.Peer, again.Req.Name), e.Wait(e.P, again.Req.Name)
		again.Release() // wakes the head waiter, which leaves without an acquire
		head.Leave()
		next.TakeTurn().IsHeld()
	}},
	{Name: "Wait_AnUnusedWakeupIsPassedOn", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		head, next := e.Wait(e.Peer, holder.Req.Name), e.Wait(e.P, holder.Req.Name)
		holder.Release()
		if e.Virtual { // in virtual time, wait until the wake-up has arrived
			e.WaitIdle()
		}
		head.Leave()
		next.IsWoken()
		next.TakeTurn().IsHeld()
	}},
	// A waiter that gets the wake-up acquires the name, releases it, and waits again, behind the others.
	{Name: "Wait_NobodyIsPassedOverForEver", Needs: "Virtual", Run: func(e *suite.Env) {
		last := e.Take(e.Name())
		first := e.Wait(e.Peer, last.Req.Name)
		others := []*suite.Registration{e.Wait(e.P, last.Req.Name), e.Wait(e.Peer, last.Req.Name)}
		for range 64 { // enough even if the next waiter is chosen at random
			last.Release()
			e.WaitIdle()
			if len(first.Wakeups) > 0 {
				first.TakeTurn().IsHeld()
				return
			}
			i := slices.IndexFunc(others, func(w *suite.Registration) bool { return len(w.Wakeups) > 0 })
			e.GreaterOrEqual(i, 0, "a release wakes no waiter")
			last = others[i].TakeTurn()
			others[i] = e.Wait(e.Either(i), last.Req.Name)
		}
		e.Fail("later waiters are woken again and again")
	}},
	// The check makes the first waiter ignore its wake-up, while others acquire the name repeatedly.
	{Name: "Trap_T93_AWaiterThatIgnoresItsWakeupIsPassedOver", Needs: "Virtual", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		e.Wait(e.Peer, holder.Req.Name)
		next := e.Wait(e.Peer, holder.Req.Name)
		for range 8 {
			holder.Release()
			e.WaitIdle()
			if len(next.Wakeups) > 0 {
				return
			}
			e.Pause(e.Slack) // longer than any reservation for the first waiter
			holder = e.Take(holder.Req.Name)
		}
		e.Fail("the waiter behind it is never woken")
	}},
	// The check makes the first waiter get a wake-up and do nothing.
	{Name: "Trap_T78_HungWaiterBlocksNobody", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		e.Wait(e.Peer, holder.Req.Name)
		next := e.Wait(e.P, holder.Req.Name)
		holder.Release()
		next.TakeTurn().IsHeld()
	}},
	// The check releases a lease around the moment in which a waiter registers. Either the waiter's acquire after
	// its registration finds the name free, or the waiter gets a wake-up.
	{Name: "Trap_T32_NothingIsMissedAfterRegistration", Run: func(e *suite.Env) {
		suite.Ability[abstractions.Waiter](e, e.Peer)
		for round := range 10 {
			name := e.Name()
			holder := e.Take(name)
			registered, released := make(chan struct{}), make(chan struct{})
			e.T.Go(func() {
				defer close(released)
				if round%2 == 1 {
					<-registered
				}
				holder.Release()
			})
			w := registerPeer(e, name, registered)
			c, err := e.Try(w.P, w.Req)
			if err != nil {
				e.Held(err)
				w.IsWoken()
				<-released
				c = w.TakeTurn()
			}
			<-released
			w.Leave()
			c.Release()
		}
	}},
	// The check sends acquires right after a release. A reservation is short, and may end
	// before another claim's request, so it is enough if one of several rounds shows a
	// reservation.
	{Name: "Queue_AFreeNameIsKeptForTheFirst", Run: func(e *suite.Env) {
		needQueue(e)
		for range 10 {
			holder, queue := queue(e, 2)
			holder.Release()
			_, stranger := e.Try(e.P, e.Request(holder.Req.Name))
			_, second := e.Try(queue[1].P, queue[1].Req)
			c, err := e.Try(queue[0].P, queue[0].Req)
			if stranger == nil || second == nil || err != nil {
				continue
			}
			e.Greater(c.Token(), holder.Token())
			e.False(e.Held(stranger).Holder.Held, "it is free, and kept for another")
			e.Held(second)
			return
		}
		e.Fail("a name that becomes free is not kept for the first who waits")
	}},
	// A waiter may be passed over because its reservation ended early, so it is enough if one of several rounds is
	// in order.
	{Name: "Queue_WhoComesIsServedInOrder", Run: func(e *suite.Env) {
		needQueue(e)
		for range 10 {
			holder, queue := queue(e, 5)
			order := make(chan int, len(queue))
			served := make(chan *suite.Claim, len(queue))
			for i, w := range queue {
				e.T.Go(func() {
					select {
					case <-w.Wakeups:
					case <-time.After(e.Slack):
					}
					c := w.TakeTurn()
					order <- i
					served <- c
				})
			}
			inOrder := true
			for i := range queue {
				holder.Release()
				holder = <-served
				inOrder = <-order == i && inOrder
			}
			if inOrder {
				return
			}
		}
		e.Fail("those who wait are not served in the order in which they came")
	}},
	// The check counts the waiters that have received a wake-up when the first waiter receives its
	// own wake-up.
	{Name: "Queue_OneIsWoken", Run: func(e *suite.Env) {
		needQueue(e)
		for range 10 {
			holder, queue := queue(e, 3)
			holder.Release()
			queue[0].IsWoken()
			if len(queue[1].Wakeups)+len(queue[2].Wakeups) == 0 {
				return
			}
		}
		e.Fail("a release wakes others than the first who waits")
	}},
	// The check compares the shortest of several waits behind a waiter that leaves, and behind a waiter that hangs.
	{Name: "Queue_WhoLeavesPassesItsTurnOn", Run: func(e *suite.Env) {
		needQueue(e)
		shortest := func(first func(*suite.Registration)) time.Duration {
			least := suite.CallTimeout
			for range 10 {
				holder, queue := queue(e, 2)
				released := make(chan struct{})
				e.T.Go(func() { // a turn may begin, and end, while a release waits for a server that hangs
					defer close(released)
					holder.Release()
				})
				queue[0].IsWoken()
				began := time.Now()
				first(queue[0])
				queue[1].IsWoken()
				least = min(least, time.Since(began))
				<-released
				queue[1].TakeTurn().Release()
			}
			return least
		}
		hung := shortest(func(*suite.Registration) {})
		if hung < 20*time.Millisecond {
			e.LeaveOut("turns are too short here to compare")
		}
		e.Less(shortest(func(w *suite.Registration) { w.Leave() }), hung/2, "until the next is woken; behind one that hangs it takes %v", hung)
	}},
	// In this check the waiters in front never try to acquire the name.
	{Name: "Trap_T78_AHungWaiterCostsItsReservation", Run: func(e *suite.Env) {
		needQueue(e)
		const hung = 3
		holder, queue := queue(e, hung+1)
		holder.Release()
		last := queue[hung]
		began := time.Now()
		last.IsWoken()
		last.TakeTurn().IsHeld()
		e.Less(time.Since(began), suite.CallTimeout/2, "longer than some reservations")
	}},
}

// registerPeer registers a waiter, and closes done when that has succeeded or failed.
func registerPeer(e *suite.Env, name string, done chan<- struct{}) *suite.Registration {
	defer close(done)
	return e.Register(e.Peer, e.Request(name))
}

// needQueue skips the check for a provider without a queue.
func needQueue(e *suite.Env) {
	suite.Ability[abstractions.Waiter](e, e.Peer)
	if !e.Caps.Queues {
		e.LeaveOut("no queue of waiters here")
	}
}

// queue makes waiters of both clients wait for a name that another claim holds.
func queue(e *suite.Env, waiters int) (holder *suite.Claim, queue []*suite.Registration) {
	holder = e.Take(e.Name())
	for i := range waiters {
		queue = append(queue, e.Wait(e.Either(i), holder.Req.Name))
	}
	return holder, queue
}
