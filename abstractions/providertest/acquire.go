package providertest

import (
	"context"
	"errors"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
)

var acquireChecks = []check{
	{name: "Acquire_GrantsAFreeName", run: grantsAFreeName},
	{name: "Acquire_RefusesWhatAnotherHolds", run: refusesWhatAnotherHolds},
	{name: "Acquire_TellsWhoHolds", run: tellsWhoHolds},
	{name: "Acquire_InfiniteIsGrantedOrInvalid", run: infiniteIsGrantedOrInvalid},
	{name: "Acquire_RefusesABrokenID", run: refusesABrokenID},
	{name: "Acquire_SameOwnerIsNotTheSameClaim", run: sameOwnerIsNotTheSameClaim},
	{name: "Trap_T13_LostReplyIsTriedAgain", run: lostReplyIsTriedAgain},
	{name: "Trap_T13_RepetitionsAtOnceAreOneClaim", run: repetitionsAreOneClaim},
	{name: "Acquire_LateCopyDoesNotShorten", run: lateCopyDoesNotShorten},
	{name: "Trap_T18_OneOfManyRacersWins", run: oneOfManyRacersWins},
	{name: "Trap_T56_ReleasedIDIsRefused", run: releasedIDIsRefused},
	{name: "Trap_T56_DelayedAcquireDoesNotLandAfterItsRelease", run: delayedAcquireDoesNotLand},
}

func grantsAFreeName(e *env) {
	e.take(e.name()).isHeld() // take holds the grant against the request
}

func refusesWhatAnotherHolds(e *env) {
	holder := e.take(e.name())
	for range 3 {
		e.refused(holder.req.Name)
	}
	holder.isHeld()
}

func tellsWhoHolds(e *env) {
	req := e.request(e.name())
	req.Owner = "host-1, process 7"
	holder := e.acquire(e.p, req)
	sent := e.now()
	held := e.refused(req.Name)
	returned := e.now()
	e.True(held.Holder.Held)
	e.Equal(req.Name, held.Holder.Name)
	if held.Holder.ID != "" {
		e.Equal(req.ID, held.Holder.ID)
		e.Equal(req.Owner, held.Holder.Owner)
		e.Equal(holder.token(), held.Holder.Token)
	}
	e.GreaterOrEqual(held.RetryAfter, 0*e.long)
	left, known := held.Holder.Remaining()
	e.Equal(e.caps.RemainingKnown, known, "Capabilities.RemainingKnown")
	if known {
		holder.isRemaining(left, sent, returned)
	}
}

func infiniteIsGrantedOrInvalid(e *env) {
	req := e.request(e.name())
	req.TTL = abstractions.Infinite
	if !e.caps.Infinite {
		_, err := e.try(e.p, req)
		e.invalid(err)
		return
	}
	holder := e.acquire(e.p, req)
	holder.isInfinite()
	holder.renew(abstractions.Infinite)
	holder.isInfinite()
	holder.release()
	e.isFree(req.Name)
}

// A copy of the acquire arrives after the claim was renewed to a longer TTL,
// the longest there is.
func lateCopyDoesNotShorten(e *env) {
	holder := e.take(e.name())
	longer := 2 * e.long
	switch limit := e.caps.MaxTTL; {
	case e.caps.Infinite:
		longer = abstractions.Infinite
	case limit > 0:
		longer = min(longer, limit)
	}
	holder.renew(longer)
	_, err := e.try(e.p, holder.req)
	e.NoError(err, "the same claim again")
	sent := e.now()
	record := e.inspect(holder.req.Name)
	e.True(record.Held)
	if longer == abstractions.Infinite {
		e.True(record.ExpiresAt.IsZero(), "an infinite lease has got an end")
	} else if left, known := record.Remaining(); known {
		holder.isRemaining(left, sent, e.now())
	}
}

// isInfinite says that the backend takes the lease for one without an end.
func (c *claim) isInfinite() {
	c.e.t.Helper()
	c.isHeld()
	record := c.e.inspect(c.req.Name)
	c.e.True(record.ExpiresAt.IsZero(), "an infinite lease has no ExpiresAt")
	_, known := record.Remaining()
	c.e.False(known, "the time an infinite lease has left is not known")
	_, known = c.e.refused(c.req.Name).Holder.Remaining()
	c.e.False(known, "the time an infinite lease has left is not known")
}

func refusesABrokenID(e *env) {
	for _, immediate := range []bool{false, true} {
		holder := e.take(e.name())
		e.breaks(abstractions.BreakRequest{Name: holder.req.Name, Immediate: immediate})
		for client, p := range e.clients() {
			_, err := e.try(p, holder.req)
			e.is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that was broken (immediate: %v), by the %s", immediate, client)
		}
	}
}

func sameOwnerIsNotTheSameClaim(e *env) {
	holder := e.take(e.name())
	e.Equal(holder.req.Owner, e.request("x").Owner)
	e.refused(holder.req.Name)
	e.cleanUp(e.p, e.request(holder.req.Name)) // releases a claim of the same owner that never was
	holder.isHeld()
}

func lostReplyIsTriedAgain(e *env) {
	first := e.take(e.name())
	for client, p := range e.clients() { // as if its reply had been lost
		again, err := e.try(p, first.req)
		e.NoError(err, "an acquire with the ID of the present holder, by the %s", client)
		again.isGranted(again.grant)
		e.Equal(first.token(), again.token(), "the same claim has the same token: %s", client)
	}
	first.isHeld()
	first.release()
	e.isFree(first.req.Name)
}

func repetitionsAreOneClaim(e *env) {
	req := e.request(e.name())
	claims, errs := e.together(16, func(int) abstractions.AcquireRequest { return req })
	for i := range claims {
		e.NoError(errs[i])
		e.Equal(claims[0].token(), claims[i].token(), "one claim has one token")
	}
	claims[0].isHeld()
}

func oneOfManyRacersWins(e *env) {
	for range 3 {
		name := e.name()
		first := e.race(name) // for a name without a record
		first.release()
		second := e.race(name) // for one with a record
		e.Greater(second.token(), first.token())
	}
}

// race lets many claims ask at once and returns the only winner.
func (e *env) race(name string) *claim {
	e.t.Helper()
	claims, errs := e.together(24, func(int) abstractions.AcquireRequest { return e.request(name) })
	var winner *claim
	for i, err := range errs {
		if err != nil {
			e.held(err)
			continue
		}
		e.Nil(winner, "two holders of %q", name)
		winner = claims[i]
	}
	e.NotNil(winner, "nobody got %q", name)
	winner.isHeld()
	return winner
}

// together makes n attempts at once, half of them from the other client.
func (e *env) together(n int, request func(i int) abstractions.AcquireRequest) ([]*claim, []error) {
	claims, errs := make([]*claim, n), make([]error, n)
	start := make(chan struct{})
	var all sync.WaitGroup
	for i := range n {
		p, req := e.p, request(i)
		if i%2 == 1 {
			p = e.peer
		}
		all.Go(func() {
			<-start
			errs[i] = e.settled(func(context.Context) error {
				var err error
				claims[i], err = e.try(p, req)
				return err
			})
		})
	}
	close(start)
	all.Wait()
	return claims, errs
}

func releasedIDIsRefused(e *env) {
	holder := e.take(e.name())
	holder.release()
	for client, p := range e.clients() {
		_, err := e.try(p, holder.req)
		e.is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that was released, by the %s", client)
	}
	e.isFree(holder.req.Name)
}

func delayedAcquireDoesNotLand(e *env) {
	fresh := e.request(e.name())
	remembered := e.request(e.name())
	e.take(remembered.Name).release()
	taken := e.request(e.name())
	holder := e.take(taken.Name)
	for what, req := range map[string]abstractions.AcquireRequest{"unseen name": fresh, "remembered name": remembered, "held name": taken} {
		e.cleanUp(e.peer, req)
		_, err := e.try(e.p, req) // what was sent before, and arrives now
		if what == "held name" && errors.Is(err, abstractions.ErrHeld) {
			holder.release() // the name may be free when it arrives
			e.cleanUp(e.peer, req)
			_, err = e.try(e.p, req)
		}
		e.is(err, abstractions.ErrReleased, what)
	}
	e.isFree(fresh.Name)
	e.isFree(remembered.Name)
}
