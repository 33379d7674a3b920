package providertest

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

var breakChecks = []check{
	// A backend remembers a few of the IDs that were given up. It must not forget the ID of
	// a broken lease that still holds the name.
	{name: "Break_IsNotForgottenWhileItRunsOut", run: func(e *env) {
		holder := e.take(e.name())
		broken := e.breaks(abstractions.BreakRequest{Name: holder.req.Name})
		for range 20 {
			e.cleanUp(e.p, e.request(holder.req.Name))
		}
		holder.isLost(abstractions.LostBroken, abstractions.LostGone)
		for client, p := range e.clients() {
			_, err := e.try(p, holder.req)
			e.is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that was broken and runs out, by the %s", client)
		}
		again := e.breaks(abstractions.BreakRequest{Name: holder.req.Name})
		e.LessOrEqual(again.Remaining, broken.Remaining+e.caps.Granularity, "nothing has prolonged it")
		e.True(e.inspect(holder.req.Name).Breaking)
	}},
	// It also looks whether the claim is refused from then on.
	{name: "Break_TellsWhoAndWhy", run: func(e *env) {
		holder := e.take(e.name())
		for _, actor := range []string{"first", "second"} { // the first to break a lease is told
			e.breaks(abstractions.BreakRequest{Name: holder.req.Name, Actor: actor, Reason: "why " + actor})
		}
		record := e.inspect(holder.req.Name)
		e.Equal([]string{"first", "why first"}, []string{record.BrokenBy, record.BreakReason}, "Record.BrokenBy and BreakReason")
		var lost *abstractions.LostError
		e.ErrorAs(holder.tryRenew(e.long), &lost)
		e.Equal([]string{"first", "why first"}, []string{lost.BrokenBy, lost.BreakReason}, "LostError.BrokenBy and BreakReason")

		freed := e.take(e.name())
		e.breaks(abstractions.BreakRequest{Name: freed.req.Name, Immediate: true})
		for client, p := range e.clients() {
			_, err := e.try(p, freed.req)
			e.is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that was broken, by the %s", client)
		}
	}},
	{name: "Break_InfiniteNeedsNoGrace", waits: true, run: func(e *env) {
		if !e.caps.Infinite {
			e.leaveOut("no infinite leases here")
		}
		holder := e.take(e.name())
		holder.renew(abstractions.Infinite)
		result := e.breaks(abstractions.BreakRequest{Name: holder.req.Name}) // Grace 0 means the least
		returned := e.now()
		e.True(result.WasHeld)
		e.Less(result.Remaining, e.long, "an end is in sight")
		e.sleepUntil(returned.Add(result.Remaining + e.caps.Lateness.After(e.short) + time.Second))
		e.isFree(holder.req.Name)
	}},
	{name: "Trap_T21_BreakKeepsTheToken", run: func(e *env) {
		e.rises(func(holder *claim) {
			result := e.breaks(abstractions.BreakRequest{Name: holder.req.Name, Immediate: true})
			e.Equal(holder.token(), result.Token)
			e.Equal(holder.token(), e.inspect(holder.req.Name).Token)
		})
	}},
	{name: "Trap_T63_BreakHitsOnlyTheLeaseItNames", run: func(e *env) {
		first := e.take(e.name())
		first.release()
		second := e.take(first.req.Name)
		for _, immediate := range []bool{false, true} {
			_, err := e.tryBreak(abstractions.BreakRequest{Name: first.req.Name, IfToken: first.token(), Immediate: immediate})
			e.is(err, abstractions.ErrStale)
			_, err = e.tryBreak(abstractions.BreakRequest{Name: first.req.Name, IfToken: second.token() + 1, Immediate: immediate})
			e.is(err, abstractions.ErrStale, "a token that the name has not had yet")
			second.isHeld()
			e.False(e.inspect(first.req.Name).Breaking)
			second.renew(e.long)
		}
		result := e.breaks(abstractions.BreakRequest{Name: first.req.Name, IfToken: second.token(), Immediate: true})
		e.Equal(abstractions.BreakResult{WasHeld: true, Token: second.token()}, result)
		result = e.breaks(abstractions.BreakRequest{Name: first.req.Name, IfToken: second.token()})
		e.Equal(abstractions.BreakResult{Token: second.token()}, result, "already broken, and no lease has followed")
		_, err := e.tryBreak(abstractions.BreakRequest{Name: first.req.Name, IfToken: first.token()})
		e.is(err, abstractions.ErrStale, "another lease has followed, although it has ended too")
	}},
}
