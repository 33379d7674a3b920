package providertest

import (
	"context"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
)

var renewChecks = []check{
	{name: "Renew_KeepsTheClaim", run: renewKeepsTheClaim},
	{name: "Renew_AfterReleaseIsLost", run: renewAfterRelease},
	{name: "Renew_AfterBreakIsLost", run: renewAfterBreak},
	{name: "Renew_OfAStrangerIsLost", run: renewOfAStranger},
	{name: "Renew_ToInfiniteAndBack", run: renewToInfinite},
	{name: "Renew_ManyAtOnce", run: renewManyAtOnce},
	{name: "Trap_T14_RepeatedRenewalIsNoConflict", run: repeatedRenewal},
	{name: "Trap_T15_StateBeforeALostReplyStillWorks", run: staleStateWorks},
	{name: "Trap_T22_TokenDoesNotRiseOnRenewal", run: tokenKeptOnRenewal},
}

func renewKeepsTheClaim(e *env) {
	req := e.request(e.name())
	req.Metadata = map[string]string{"region": "north"}
	holder := e.acquire(e.p, req)
	before := e.inspect(req.Name)
	for range 3 {
		holder.renew(e.long)
	}
	holder.isHeld()
	after := e.inspect(req.Name)
	e.Equal(before.Owner, after.Owner)
	e.Equal(before.Metadata, after.Metadata)
	e.Equal(before.AcquiredAt, after.AcquiredAt, "a renewal is no acquire")
}

func renewAfterRelease(e *env) {
	holder := e.take(e.name())
	holder.release()
	holder.isLost(abstractions.LostGone, abstractions.LostTaken)
	e.isFree(holder.req.Name)
}

func renewAfterBreak(e *env) {
	for _, immediate := range []bool{false, true} {
		holder := e.take(e.name())
		e.breaks(abstractions.BreakRequest{Name: holder.req.Name, Immediate: immediate})
		holder.isLost(abstractions.LostBroken, abstractions.LostGone)
		if !immediate {
			continue
		}
		next := e.take(holder.req.Name)
		holder.isLost(abstractions.LostBroken, abstractions.LostGone, abstractions.LostTaken)
		next.isHeld()
	}
}

func renewOfAStranger(e *env) {
	holder := e.take(e.name())
	stranger := &claim{e: e, p: e.p, req: e.request(holder.req.Name), grant: holder.grant}
	stranger.isLost(abstractions.LostTaken, abstractions.LostGone)
	holder.isHeld()

	unseen := &claim{e: e, p: e.p, req: e.request(e.name()), grant: abstractions.Grant{Token: 1}}
	unseen.isLost(abstractions.LostGone)
	record := e.inspect(unseen.req.Name)
	e.False(record.Held)
	e.Zero(record.Token, "a renewal that is refused makes nothing")
}

func renewToInfinite(e *env) {
	holder := e.take(e.name())
	if !e.caps.Infinite {
		e.invalid(holder.tryRenew(abstractions.Infinite))
		holder.isHeld()
		return
	}
	holder.renew(abstractions.Infinite)
	holder.isInfinite()
	holder.renew(e.long)
	holder.isHeld()
	if e.caps.RemainingKnown {
		_, known := e.inspect(holder.req.Name).Remaining()
		e.True(known, "finite again")
	}
}

func renewManyAtOnce(e *env) {
	holder := e.take(e.name())
	var all sync.WaitGroup
	for i := range 16 {
		one := *holder
		if i%2 == 1 {
			one.p = e.peer
		}
		all.Go(func() {
			e.NoError(e.settled(func(context.Context) error { return one.tryRenew(e.long) }))
		})
	}
	all.Wait()
	holder.isHeld()
}

func repeatedRenewal(e *env) {
	holder := e.take(e.name())
	req := holder.renewRequest(e.long)
	for range 3 { // the SDK below retries what the provider does not see
		ctx, cancel := e.call()
		grant, err := e.p.Renew(ctx, req)
		cancel()
		e.NoError(err)
		e.Equal(holder.token(), grant.Token)
	}
	release := holder.releaseRequest()
	for range 3 {
		e.release(e.p, release)
	}
	e.isFree(holder.req.Name)
}

func staleStateWorks(e *env) {
	holder := e.take(e.name())
	state := holder.grant.State
	holder.renew(e.long) // its reply was lost: the holder goes on with the state before
	holder.grant.State = state
	holder.renew(e.long)
	holder.grant.State = state
	holder.release()
	e.isFree(holder.req.Name)

	another := e.take(e.name())
	again := e.acquire(e.peer, another.req) // by a second attempt
	again.renew(e.long)
	another.renew(e.long)
	another.release()
	e.isFree(another.req.Name)
}

func tokenKeptOnRenewal(e *env) {
	holder := e.take(e.name())
	token := holder.token()
	for range 5 {
		holder.renew(e.long)
		e.Equal(token, holder.grant.Token)
		e.Equal(token, e.inspect(holder.req.Name).Token)
	}
}
