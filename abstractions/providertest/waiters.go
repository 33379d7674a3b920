package providertest

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// waitersChecks are about the list of waiters that an operator sees.
var waitersChecks = []check{
	{name: "Waiters_AreListedInOrder", run: func(e *env) {
		holder := e.take(e.name())
		owners := []string{"worker 1", `a "b" {c} \ %d`, "Zoë", "worker 1"}
		var queue []*waiting
		var joined []time.Time // by the backend's clock, before each, and after the last
		for i, owner := range owners {
			joined = append(joined, e.inspect(holder.req.Name).Now)
			req := e.request(holder.req.Name)
			req.Owner = owner
			queue = append(queue, e.waitFor(e.either(i), req))
		}
		joined = append(joined, e.inspect(holder.req.Name).Now)
		time.Sleep(3 * clockUnit)
		first := e.waiters(holder.req.Name)
		for i, w := range first {
			e.Equal(abstractions.FingerprintOf(queue[i].req.ID), w.Fingerprint, "place %d", i)
			e.Equal(owners[i], w.Owner, "place %d", i)
			e.WithinRange(w.Since, joined[i].Add(-clockUnit), joined[i+1].Add(clockUnit), "place %d", i)
			e.WithinRange(w.Now, joined[len(joined)-1].Add(-clockUnit), e.inspect(holder.req.Name).Now.Add(clockUnit))
		}
		e.Len(first, len(owners))
		e.held(second(e.try(queue[1].p, queue[1].req)))
		for i, w := range e.waiters(holder.req.Name) {
			e.Equal(first[i].Fingerprint, w.Fingerprint, "who asks again keeps its place")
			e.Equal(first[i].Since, w.Since, "and has waited since then")
		}
		for _, w := range queue {
			e.Empty(w.hints, "the question wakes no waiter")
		}
	}},
	{name: "Waiters_NobodyWaits", run: func(e *env) {
		unknown, held, free := e.name(), e.take(e.name()).req.Name, e.take(e.name())
		ability[abstractions.WaiterLister](e, e.peer)
		e.refused(held) // and does not wait
		free.release()
		e.wait(e.p, e.take(held+"/another").req.Name)
		for _, name := range []string{unknown, held, free.req.Name} {
			e.Empty(e.waiters(name), name)
		}
	}},
	{name: "Waiters_OneThatLeavesIsNotListed", run: func(e *env) {
		holder := e.take(e.name())
		var queue []*waiting
		for i := range 3 {
			queue = append(queue, e.wait(e.either(i), holder.req.Name))
		}
		e.listed(holder.req.Name, queue...)
		queue[1].leave()
		e.listed(holder.req.Name, queue[0], queue[2])
		queue[0].leave()
		queue[2].leave()
		e.listed(holder.req.Name)
	}},
	{name: "Waiters_OneThatIsServedIsNotListed", run: func(e *env) {
		holder := e.take(e.name())
		first, next := e.wait(e.peer, holder.req.Name), e.wait(e.p, holder.req.Name)
		holder.release()
		served := first.get() // its registration goes on
		e.listed(holder.req.Name, next)
		served.release()
		next.served()
		e.listed(holder.req.Name)
	}},
	// A reservation is short, and may end before the question: one has to be seen in one of several rounds.
	{name: "Waiters_OneWhoseTurnItIsIsListed", run: func(e *env) {
		e.queues()
		for range 10 {
			holder, queue := e.queue(2)
			holder.release()
			if found := e.waiters(holder.req.Name); len(found) == 2 {
				e.Equal(abstractions.FingerprintOf(queue[0].req.ID), found[0].Fingerprint)
				e.Equal(queue[0].req.Owner, found[0].Owner)
				e.False(found[0].Since.After(found[1].Since))
				return
			}
		}
		e.Fail("a waiter for which the name is reserved is not listed")
	}},
	{name: "Waiters_AHungOneIsDroppedAfterItsTurn", run: func(e *env) {
		e.queues()
		holder, queue := e.queue(3)
		holder.release()
		next := queue[1].served()
		e.listed(holder.req.Name, queue[2])
		next.release() // also without a next waiter
		e.listed(holder.req.Name)
	}},
	{name: "Waiters_ThoseOfAClosedClientAreNotListed", needs: "KnowsTheGone", run: func(e *env) {
		holder, gone := e.take(e.name()), e.openPeer()
		first := e.wait(gone, holder.req.Name)
		second := e.wait(e.p, holder.req.Name)
		third := e.wait(gone, holder.req.Name)
		e.listed(holder.req.Name, first, second, third)
		e.NoError(gone.Close())
		e.listed(holder.req.Name, second)
	}},
	// It has another come and ask so often that whatever a backend does now and then is done.
	{name: "Waiters_AreNotForgottenWhileTheyWait", waits: true, run: func(e *env) {
		ability[abstractions.WaiterLister](e, e.peer)
		holder := e.take(e.name())
		patient := e.wait(e.peer, holder.req.Name)
		time.Sleep(1100 * time.Millisecond)
		busy := e.wait(e.p, holder.req.Name)
		for range 256 {
			e.held(e.settled(sending(busy.p.Acquire, busy.req)))
		}
		e.listed(holder.req.Name, patient, busy)
	}},
}

// clockUnit is by how much two readings of a backend's clock may be rounded differently.
const clockUnit = 2 * time.Millisecond

// waiters lists the waiters for a name.
func (e *env) waiters(name string) []abstractions.Waiting {
	list, err := send(e, ability[abstractions.WaiterLister](e, e.peer).Waiters, abstractions.WaitersRequest{Name: name})
	e.NoError(err, "waiters of %q", name)
	return list
}

// listed waits until exactly the waiters of the queue are listed for a name, in order.
func (e *env) listed(name string, queue ...*waiting) {
	var want, found []abstractions.Fingerprint
	for _, w := range queue {
		want = append(want, abstractions.FingerprintOf(w.req.ID))
	}
	for began := time.Now(); time.Since(began) < e.h.Slack; time.Sleep(5 * time.Millisecond) {
		found = nil
		for _, w := range e.waiters(name) {
			found = append(found, w.Fingerprint)
		}
		if slices.Equal(want, found) {
			return
		}
	}
	e.Equal(want, found, "who waits for %q", name)
}
