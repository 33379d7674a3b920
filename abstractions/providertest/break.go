package providertest

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var breakChecks = []suite.Check{
	// A backend remembers a few of the IDs that were released. It must not forget the ID of
	// a broken lease that still holds the name.
	{Name: "Break_IsNotForgottenWhileItRunsOut", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		broken := e.Break(abstractions.BreakRequest{Name: holder.Req.Name})
		for range 20 {
			e.CleanUp(e.P, e.Request(holder.Req.Name))
		}
		holder.IsLost(abstractions.LostBroken, abstractions.LostGone)
		for client, p := range e.Clients() {
			_, err := e.Try(p, holder.Req)
			e.Is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that was broken and runs out, by the %s", client)
		}
		again := e.Break(abstractions.BreakRequest{Name: holder.Req.Name})
		e.LessOrEqual(again.Remaining, broken.Remaining+e.Caps.Granularity, "nothing has prolonged it")
		e.True(e.Inspect(holder.Req.Name).Breaking)
	}},
	// The check also tests that the broken claim is refused from then on.
	{Name: "Break_RecordsActorAndReason", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		for _, actor := range []string{"first", "second"} { // only the first break is reported
			e.Break(abstractions.BreakRequest{Name: holder.Req.Name, Actor: actor, Reason: "why " + actor})
		}
		record := e.Inspect(holder.Req.Name)
		e.Equal([]string{"first", "why first"}, []string{record.BrokenBy, record.BreakReason}, "Record.BrokenBy and BreakReason")
		var lost *abstractions.LostError
		e.ErrorAs(holder.TryRenew(e.Long), &lost)
		e.Equal([]string{"first", "why first"}, []string{lost.BrokenBy, lost.BreakReason}, "LostError.BrokenBy and BreakReason")

		freed := e.Take(e.Name())
		e.Break(abstractions.BreakRequest{Name: freed.Req.Name, Immediate: true})
		for client, p := range e.Clients() {
			_, err := e.Try(p, freed.Req)
			e.Is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that was broken, by the %s", client)
		}
	}},
	{Name: "Break_InfiniteNeedsNoGrace", Waits: true, Run: func(e *suite.Env) {
		if !e.Caps.Infinite {
			e.LeaveOut("no infinite leases here")
		}
		holder := e.Take(e.Name())
		holder.Renew(abstractions.Infinite)
		result := e.Break(abstractions.BreakRequest{Name: holder.Req.Name}) // Grace 0 means the minimum
		returned := e.Now()
		e.True(result.WasHeld)
		e.Less(result.Remaining, e.Long, "an end is in sight")
		e.SleepUntil(returned.Add(result.Remaining + e.Caps.Lateness.After(e.Short) + time.Second))
		e.IsFree(holder.Req.Name)
	}},
	{Name: "Trap_T21_BreakKeepsTheToken", Run: func(e *suite.Env) {
		checkTokenRises(e, func(holder *suite.Claim) {
			result := e.Break(abstractions.BreakRequest{Name: holder.Req.Name, Immediate: true})
			e.Equal(holder.Token(), result.Token)
			e.Equal(holder.Token(), e.Inspect(holder.Req.Name).Token)
		})
	}},
	{Name: "Trap_T63_BreakHitsOnlyTheLeaseItNames", Run: func(e *suite.Env) {
		first := e.Take(e.Name())
		first.Release()
		second := e.Take(first.Req.Name)
		for _, immediate := range []bool{false, true} {
			_, err := e.TryBreak(abstractions.BreakRequest{Name: first.Req.Name, IfToken: first.Token(), Immediate: immediate})
			e.Is(err, abstractions.ErrStale)
			_, err = e.TryBreak(abstractions.BreakRequest{Name: first.Req.Name, IfToken: second.Token() + 1, Immediate: immediate})
			e.Is(err, abstractions.ErrStale, "a token that the name has not had yet")
			second.IsHeld()
			e.False(e.Inspect(first.Req.Name).Breaking)
			second.Renew(e.Long)
		}
		result := e.Break(abstractions.BreakRequest{Name: first.Req.Name, IfToken: second.Token(), Immediate: true})
		e.Equal(abstractions.BreakResult{WasHeld: true, Token: second.Token()}, result)
		result = e.Break(abstractions.BreakRequest{Name: first.Req.Name, IfToken: second.Token()})
		e.Equal(abstractions.BreakResult{Token: second.Token()}, result, "already broken, and no lease has followed")
		_, err := e.TryBreak(abstractions.BreakRequest{Name: first.Req.Name, IfToken: first.Token()})
		e.Is(err, abstractions.ErrStale, "another lease has followed, although it has ended too")
	}},
}
