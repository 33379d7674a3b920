package abilities

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// waitersChecks are about the list of waiters that an operator sees.
var waitersChecks = []suite.Check{
	{Name: "Waiters_AreListedInOrder", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		owners := []string{"worker 1", `a "b" {c} \ %d`, "Zoë", "worker 1"}
		var queue []*suite.Registration
		var joined []time.Time // by the backend's clock, before each waiter joins, and after the last has joined
		for i, owner := range owners {
			joined = append(joined, e.Inspect(holder.Req.Name).Now)
			req := e.Request(holder.Req.Name)
			req.Owner = owner
			queue = append(queue, e.WaitFor(e.Either(i), req))
		}
		joined = append(joined, e.Inspect(holder.Req.Name).Now)
		time.Sleep(3 * clockUnit)
		first := waiters(e, holder.Req.Name)
		for i, w := range first {
			e.Equal(abstractions.FingerprintOf(queue[i].Req.ID), w.Fingerprint, "place %d", i)
			e.Equal(owners[i], w.Owner, "place %d", i)
			e.WithinRange(w.Since, joined[i].Add(-clockUnit), joined[i+1].Add(clockUnit), "place %d", i)
			e.WithinRange(w.Now, joined[len(joined)-1].Add(-clockUnit), e.Inspect(holder.Req.Name).Now.Add(clockUnit))
		}
		e.Len(first, len(owners))
		e.Held(suite.Second(e.Try(queue[1].P, queue[1].Req)))
		for i, w := range waiters(e, holder.Req.Name) {
			e.Equal(first[i].Fingerprint, w.Fingerprint, "who asks again keeps its place")
			e.Equal(first[i].Since, w.Since, "and has waited since then")
		}
		for _, w := range queue {
			e.Empty(w.Wakeups, "the question wakes no waiter")
		}
	}},
	{Name: "Waiters_NobodyWaits", Run: func(e *suite.Env) {
		unknown, held, free := e.Name(), e.Take(e.Name()).Req.Name, e.Take(e.Name())
		suite.Ability[abstractions.WaiterLister](e, e.Peer)
		e.IsRefused(held) // and does not wait
		free.Release()
		e.Wait(e.P, e.Take(held+"/another").Req.Name)
		for _, name := range []string{unknown, held, free.Req.Name} {
			e.Empty(waiters(e, name), name)
		}
	}},
	{Name: "Waiters_OneThatLeavesIsNotListed", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		var queue []*suite.Registration
		for i := range 3 {
			queue = append(queue, e.Wait(e.Either(i), holder.Req.Name))
		}
		checkListed(e, holder.Req.Name, queue...)
		queue[1].Leave()
		checkListed(e, holder.Req.Name, queue[0], queue[2])
		queue[0].Leave()
		queue[2].Leave()
		checkListed(e, holder.Req.Name)
	}},
	{Name: "Waiters_OneThatIsServedIsNotListed", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		first, next := e.Wait(e.Peer, holder.Req.Name), e.Wait(e.P, holder.Req.Name)
		holder.Release()
		served := first.Acquire() // its registration continues
		checkListed(e, holder.Req.Name, next)
		served.Release()
		next.TakeTurn()
		checkListed(e, holder.Req.Name)
	}},
	// A reservation is short, and may end before the list is read, so it is enough if one of several
	// rounds shows the waiter.
	{Name: "Waiters_OneWhoseTurnItIsIsListed", Run: func(e *suite.Env) {
		needQueue(e)
		for range 10 {
			holder, queue := queue(e, 2)
			holder.Release()
			if found := waiters(e, holder.Req.Name); len(found) == 2 {
				e.Equal(abstractions.FingerprintOf(queue[0].Req.ID), found[0].Fingerprint)
				e.Equal(queue[0].Req.Owner, found[0].Owner)
				e.False(found[0].Since.After(found[1].Since))
				return
			}
		}
		e.Fail("a waiter for which the name is reserved is not listed")
	}},
	{Name: "Waiters_AHungOneIsDroppedAfterItsTurn", Run: func(e *suite.Env) {
		needQueue(e)
		holder, queue := queue(e, 3)
		holder.Release()
		next := queue[1].TakeTurn()
		checkListed(e, holder.Req.Name, queue[2])
		next.Release() // queue[2] is dropped as well, although no waiter follows it
		checkListed(e, holder.Req.Name)
	}},
	{Name: "Waiters_ThoseOfAClosedClientAreNotListed", Needs: "KnowsTheGone", Run: func(e *suite.Env) {
		holder, gone := e.Take(e.Name()), e.OpenPeer()
		first := e.Wait(gone, holder.Req.Name)
		second := e.Wait(e.P, holder.Req.Name)
		third := e.Wait(gone, holder.Req.Name)
		checkListed(e, holder.Req.Name, first, second, third)
		e.NoError(gone.Close())
		checkListed(e, holder.Req.Name, second)
	}},
	// The check makes another waiter register and send so many requests that the backend does
	// all its periodic work.
	{Name: "Waiters_AreNotForgottenWhileTheyWait", Waits: true, Run: func(e *suite.Env) {
		suite.Ability[abstractions.WaiterLister](e, e.Peer)
		holder := e.Take(e.Name())
		patient := e.Wait(e.Peer, holder.Req.Name)
		time.Sleep(1100 * time.Millisecond)
		busy := e.Wait(e.P, holder.Req.Name)
		for range 256 {
			e.Held(e.Retry(suite.Sending(busy.P.Acquire, busy.Req)))
		}
		checkListed(e, holder.Req.Name, patient, busy)
	}},
}

// clockUnit bounds the difference that rounding makes between two readings of a backend's clock.
const clockUnit = 2 * time.Millisecond

// waiters lists the waiters for a name.
func waiters(e *suite.Env, name string) []abstractions.Waiting {
	list, err := suite.Send(e, suite.Ability[abstractions.WaiterLister](e, e.Peer).Waiters, abstractions.WaitersRequest{Name: name})
	e.NoError(err, "waiters of %q", name)
	return list
}

// checkListed waits until exactly the waiters of the queue are listed for a name, in order.
func checkListed(e *suite.Env, name string, queue ...*suite.Registration) {
	var want, found []abstractions.Fingerprint
	for _, w := range queue {
		want = append(want, abstractions.FingerprintOf(w.Req.ID))
	}
	for began := time.Now(); time.Since(began) < e.Slack; time.Sleep(5 * time.Millisecond) {
		found = nil
		for _, w := range waiters(e, name) {
			found = append(found, w.Fingerprint)
		}
		if slices.Equal(want, found) {
			return
		}
	}
	e.Equal(want, found, "who waits for %q", name)
}
