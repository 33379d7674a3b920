package providertest

import (
	"context"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

var waiterChecks = []check{
	{name: "Wait_ReleaseIsHinted", run: func(e *env) {
		holder := e.take(e.name())
		w := e.wait(e.peer, holder.req.Name)
		e.refused(holder.req.Name)
		holder.release()
		w.hinted()
		w.get().isHeld()
		select {
		case _, open := <-w.hints:
			e.True(open, "closed while its context lives")
		default:
		}
	}},
	{name: "Wait_BreakIsHinted", run: func(e *env) {
		holder := e.take(e.name())
		w := e.wait(e.peer, holder.req.Name)
		e.breaks(abstractions.BreakRequest{Name: holder.req.Name, Immediate: true})
		w.hinted()
		w.served().isHeld()
	}},
	{name: "Wait_ManyAreServedOneAfterTheOther", run: func(e *env) {
		holder := e.take(e.name())
		const waiters = 8
		served := make(chan *claim, waiters)
		for i := range waiters {
			w := e.wait(e.either(i), holder.req.Name)
			e.t.Go(func() { served <- w.served() })
		}
		last := holder
		for range waiters {
			last.release()
			var next *claim
			select {
			case next = <-served:
			case <-time.After(2 * e.h.Slack):
				e.Fail("a waiter is not served")
			}
			e.Greater(next.token(), last.token())
			last = next
		}
		last.isHeld()
	}},
	{name: "Wait_ALeavingWaiterBlocksNobody", run: func(e *env) {
		holder := e.take(e.name())
		head := e.wait(e.peer, holder.req.Name)
		next := e.wait(e.peer, holder.req.Name)
		head.leave()
		if e.h.Virtual { // then that is known when time has passed
			e.soon()
		}
		holder.release()
		if e.h.Virtual {
			next.hinted()
		}
		next.served().release()

		again := e.take(e.name())
		head, next = e.wait(e.peer, again.req.Name), e.wait(e.p, again.req.Name)
		again.release() // wakes the head waiter, which leaves without an acquire
		head.leave()
		next.served().isHeld()
	}},
	{name: "Wait_AHintThatNobodyTookIsPassedOn", run: func(e *env) {
		holder := e.take(e.name())
		head, next := e.wait(e.peer, holder.req.Name), e.wait(e.p, holder.req.Name)
		holder.release()
		if e.h.Virtual { // in virtual time the wake-up has arrived after soon
			e.soon()
		}
		head.leave()
		next.hinted()
		next.served().isHeld()
	}},
	// A waiter that gets the wake-up takes the name, gives it back, and waits again, behind the others.
	{name: "Wait_NobodyIsPassedOverForEver", needs: "Virtual", run: func(e *env) {
		last := e.take(e.name())
		first := e.wait(e.peer, last.req.Name)
		others := []*waiting{e.wait(e.p, last.req.Name), e.wait(e.peer, last.req.Name)}
		for range 64 { // enough also where the next waiter is drawn by lot
			last.release()
			e.soon()
			if len(first.hints) > 0 {
				first.served().isHeld()
				return
			}
			i := slices.IndexFunc(others, func(w *waiting) bool { return len(w.hints) > 0 })
			e.GreaterOrEqual(i, 0, "a release wakes no waiter")
			last = others[i].served()
			others[i] = e.wait(e.either(i), last.req.Name)
		}
		e.Fail("others who came later are hinted again and again")
	}},
	// It has the first waiter ignore its wake-up, while others take the name repeatedly.
	{name: "Trap_T93_AWaiterThatTakesNoHintIsPassedOver", needs: "Virtual", run: func(e *env) {
		holder := e.take(e.name())
		e.wait(e.peer, holder.req.Name)
		next := e.wait(e.peer, holder.req.Name)
		for range 8 {
			holder.release()
			e.soon()
			if len(next.hints) > 0 {
				return
			}
			e.pause(e.h.Slack) // whatever is kept for the first
			holder = e.take(holder.req.Name)
		}
		e.Fail("who waits behind it is never hinted")
	}},
	// It has the first waiter hear of the release, and do nothing.
	{name: "Trap_T78_HungWaiterBlocksNobody", run: func(e *env) {
		holder := e.take(e.name())
		e.wait(e.peer, holder.req.Name)
		next := e.wait(e.p, holder.req.Name)
		holder.release()
		next.served().isHeld()
	}},
	// It releases around the moment in which a waiter registers. The waiter
	// either finds the name free when it asks after its registration, or gets a wake-up.
	{name: "Trap_T32_NothingIsMissedAfterRegistration", run: func(e *env) {
		ability[abstractions.Waiter](e, e.peer)
		for round := range 10 {
			name := e.name()
			holder := e.take(name)
			registered, released := make(chan struct{}), make(chan struct{})
			e.t.Go(func() {
				defer close(released)
				if round%2 == 1 {
					<-registered
				}
				holder.release()
			})
			w := e.registered(name, registered)
			c, err := e.try(w.p, w.req)
			if err != nil {
				e.held(err)
				w.hinted()
				<-released
				c = w.served()
			}
			<-released
			w.leave()
			c.release()
		}
	}},
	// It asks right after a release. A reservation is short, and may end before another
	// claim has asked, so the check has to see a reservation in one of several rounds.
	{name: "Queue_AFreeNameIsKeptForTheFirst", run: func(e *env) {
		e.queues()
		for range 10 {
			holder, queue := e.queue(2)
			holder.release()
			_, stranger := e.try(e.p, e.request(holder.req.Name))
			_, second := e.try(queue[1].p, queue[1].req)
			c, err := e.try(queue[0].p, queue[0].req)
			if stranger == nil || second == nil || err != nil {
				continue
			}
			e.Greater(c.token(), holder.token())
			e.False(e.held(stranger).Holder.Held, "it is free, and kept for another")
			e.held(second)
			return
		}
		e.Fail("a name that becomes free is not kept for the first who waits")
	}},
	// A waiter may be passed over because its reservation ended early, so one of several rounds has to be in order.
	{name: "Queue_WhoComesIsServedInOrder", run: func(e *env) {
		e.queues()
		for range 10 {
			holder, queue := e.queue(5)
			order := make(chan int, len(queue))
			served := make(chan *claim, len(queue))
			for i, w := range queue {
				e.t.Go(func() {
					select {
					case <-w.hints:
					case <-time.After(e.h.Slack):
					}
					c := w.served()
					order <- i
					served <- c
				})
			}
			inOrder := true
			for i := range queue {
				holder.release()
				holder = <-served
				inOrder = <-order == i && inOrder
			}
			if inOrder {
				return
			}
		}
		e.Fail("those who wait are not served in the order in which they came")
	}},
	// It checks which waiters have a wake-up when the first waiter has its own.
	{name: "Queue_OneIsWoken", run: func(e *env) {
		e.queues()
		for range 10 {
			holder, queue := e.queue(3)
			holder.release()
			queue[0].hinted()
			if len(queue[1].hints)+len(queue[2].hints) == 0 {
				return
			}
		}
		e.Fail("a release wakes others than the first who waits")
	}},
	// It compares the shortest of several waits behind a waiter that leaves, and behind a waiter that hangs.
	{name: "Queue_WhoLeavesPassesItsTurnOn", run: func(e *env) {
		e.queues()
		shortest := func(first func(*waiting)) time.Duration {
			least := patience
			for range 10 {
				holder, queue := e.queue(2)
				released := make(chan struct{})
				e.t.Go(func() { // a turn may begin, and end, while a release waits for a server that hangs
					defer close(released)
					holder.release()
				})
				queue[0].hinted()
				began := time.Now()
				first(queue[0])
				queue[1].hinted()
				least = min(least, time.Since(began))
				<-released
				queue[1].served().release()
			}
			return least
		}
		hung := shortest(func(*waiting) {})
		if hung < 20*time.Millisecond {
			e.leaveOut("turns are too short here to tell")
		}
		e.Less(shortest(func(w *waiting) { w.leave() }), hung/2, "until the next is hinted; behind one that hangs it takes %v", hung)
	}},
	// It has some waiters in front that never ask for the name.
	{name: "Trap_T78_AHungWaiterCostsItsReservation", run: func(e *env) {
		e.queues()
		const hung = 3
		holder, queue := e.queue(hung + 1)
		holder.release()
		last := queue[hung]
		began := time.Now()
		last.hinted()
		last.served().isHeld()
		e.Less(time.Since(began), patience/2, "longer than some reservations")
	}},
}

// waiting is a registration.
type waiting struct {
	e     *env
	p     abstractions.Provider
	req   abstractions.AcquireRequest
	hints <-chan struct{}
	leave context.CancelFunc
}

// wait registers a new claim as a waiter for a held name, and asks for that name.
func (e *env) wait(p abstractions.Provider, name string) *waiting {
	return e.waitFor(p, e.request(name))
}

// waitFor is wait for a claim that is given.
func (e *env) waitFor(p abstractions.Provider, req abstractions.AcquireRequest) *waiting {
	w := e.register(p, req)
	_, err := e.try(p, w.req)
	e.held(err)
	return w
}

// register registers a claim as a waiter.
func (e *env) register(p abstractions.Provider, req abstractions.AcquireRequest) *waiting {
	waiter := ability[abstractions.Waiter](e, p)
	ctx, cancel := context.WithCancel(e.t.Context())
	e.t.Cleanup(cancel)
	w := &waiting{e: e, p: p, req: req, leave: cancel}
	wakeups, err := waiter.Wait(ctx, abstractions.WaitRequest{Name: req.Name, ID: req.ID, Owner: req.Owner})
	e.NoError(err)
	e.NotNil(wakeups.C)
	e.Equal(1, cap(wakeups.C), "Wakeups.C has a buffer of one")
	w.hints = wakeups.C
	return w
}

// registered registers a waiter and says when that is done, or has failed.
func (e *env) registered(name string, done chan<- struct{}) *waiting {
	defer close(done)
	return e.register(e.peer, e.request(name))
}

// hinted waits for a wake-up.
func (w *waiting) hinted() {
	select {
	case _, open := <-w.hints:
		w.e.True(open, "closed while its context lives")
	case <-time.After(w.e.h.Slack):
		w.e.Fail("no hint within " + w.e.h.Slack.String())
	}
}

// served gets the name, and ends the registration.
func (w *waiting) served() *claim {
	defer w.leave()
	return w.get()
}

// get waits for the name like the core, by wake-ups and by polling.
func (w *waiting) get() *claim {
	deadline := time.Now().Add(w.e.h.Slack)
	for {
		c, err := w.e.try(w.p, w.req)
		if err == nil {
			return c
		}
		w.e.held(err)
		w.e.True(time.Now().Before(deadline), "not served within %v", w.e.h.Slack)
		select {
		case <-w.hints:
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// queues leaves the check out for a provider without a queue.
func (e *env) queues() {
	ability[abstractions.Waiter](e, e.peer)
	if !e.caps.Queues {
		e.leaveOut("no queue of waiters here")
	}
}

// queue has waiters of both clients wait for a name that another claim holds.
func (e *env) queue(waiters int) (holder *claim, queue []*waiting) {
	holder = e.take(e.name())
	for i := range waiters {
		queue = append(queue, e.wait(e.either(i), holder.req.Name))
	}
	return holder, queue
}
