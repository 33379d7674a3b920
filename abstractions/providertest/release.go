package providertest

import (
	"github.com/distributedleasing/leasing/abstractions"
)

var releaseChecks = []check{
	{name: "Release_FreesAtOnce", run: releaseFreesAtOnce},
	{name: "Release_OfNothingIsNoError", run: releaseOfNothing},
	{name: "Release_NeedsOnlyTheID", run: releaseNeedsOnlyTheID},
	{name: "Release_OfABrokenLeaseFreesIt", run: releaseOfABrokenLease},
	{name: "Trap_T14_SecondReleaseIsNoError", run: secondRelease},
	{name: "Trap_T26_ReleaseByAnotherIDFreesNothing", run: releaseByAnotherID},
}

func releaseFreesAtOnce(e *env) {
	holder := e.take(e.name())
	holder.release()
	record := e.inspect(holder.req.Name)
	e.False(record.Held)
	e.Equal(holder.token(), record.Token, "the token is kept")
	next := e.acquire(e.peer, e.request(holder.req.Name))
	e.Greater(next.token(), holder.token())
}

func releaseOfNothing(e *env) {
	name := e.name()
	e.cleanUp(e.p, e.request(name))
	record := e.inspect(name)
	e.False(record.Held)
	e.Zero(record.Token, "there was no lease")
	e.isFree(name)
}

func releaseNeedsOnlyTheID(e *env) {
	holder := e.take(e.name())
	e.cleanUp(e.peer, holder.req) // as for an attempt whose outcome is unknown
	e.isFree(holder.req.Name)
	holder.isLost(abstractions.LostGone, abstractions.LostTaken)
}

func releaseOfABrokenLease(e *env) {
	holder := e.take(e.name())
	e.breaks(abstractions.BreakRequest{Name: holder.req.Name})
	holder.release() // its holder has heard of it, and is done
	e.isFree(holder.req.Name)
}

func secondRelease(e *env) {
	holder := e.take(e.name())
	for range 3 {
		holder.release()
	}
	next := e.take(holder.req.Name)
	holder.release() // a late repetition
	next.isHeld()
}

func releaseByAnotherID(e *env) {
	holder := e.take(e.name())
	e.release(e.peer, abstractions.ReleaseRequest{
		Name: holder.req.Name, ID: abstractions.NewID(), Token: holder.token(), State: holder.grant.State,
	})
	holder.isHeld()
	holder.renew(e.long)
}
