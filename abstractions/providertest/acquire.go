package providertest

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

var acquireChecks = []check{
	{name: "Trap_T13_LostReplyIsTriedAgain", run: func(e *env) {
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
	}},
	{name: "Trap_T13_RepetitionsAtOnceAreOneClaim", run: func(e *env) {
		req := e.request(e.name())
		claims, errs := e.together(16, func() abstractions.AcquireRequest { return req })
		for i := range claims {
			e.NoError(errs[i])
			e.Equal(claims[0].token(), claims[i].token(), "one claim has one token")
		}
		claims[0].isHeld()
	}},
	{name: "Trap_T18_OneOfManyRacersWins", run: func(e *env) {
		for range 3 {
			name := e.name()
			first := e.race(name) // for a name without a record
			first.release()
			second := e.race(name) // for one with a record
			e.Greater(second.token(), first.token())
		}
	}},
	{name: "Trap_T56_ReleasedIDIsRefused", run: func(e *env) {
		holder := e.take(e.name())
		holder.release()
		for client, p := range e.clients() {
			_, err := e.try(p, holder.req)
			e.is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that was released, by the %s", client)
		}
		e.isFree(holder.req.Name)
	}},
	// It lets some minutes pass, where that costs nothing.
	{name: "Trap_T56_LastEightAreRefused", run: func(e *env) {
		var ended []*claim
		name := e.name()
		for range 8 {
			ended = append(ended, e.take(name))
			ended[len(ended)-1].release()
			if e.h.Virtual {
				e.sleepUntil(e.now().Add(2 * time.Minute))
			}
		}
		for i, c := range ended {
			_, err := e.try(e.either(i), c.req)
			e.is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that was released, and %d others after it", len(ended)-1-i)
		}
		e.isFree(name)
	}},
	// It has a busy name for most of a minute, where that costs nothing.
	{name: "Trap_T56_IDsOfTheLastMinuteAreRefused", needs: "Remembers", run: func(e *env) {
		name := e.name()
		ended, at := make([]*claim, e.h.Remembers), make([]time.Time, e.h.Remembers)
		for i := range ended {
			if e.h.Virtual || e.h.Advance != nil {
				e.sleepUntil(e.now().Add(50 * time.Second / time.Duration(len(ended))))
			}
			ended[i], at[i] = e.take(name), e.now()
			if i%2 == 0 {
				ended[i].release()
			} else {
				e.breaks(abstractions.BreakRequest{Name: name, Immediate: true})
			}
		}
		for i, c := range ended {
			_, err := e.try(e.either(i), c.req)
			if e.now().Sub(at[i]) < 59*time.Second {
				e.is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that ended within the minute, and %d others after it", len(ended)-1-i)
			}
		}
	}},
	{name: "Trap_T56_DelayedAcquireDoesNotLandAfterItsRelease", run: func(e *env) {
		fresh := e.request(e.name())
		remembered := e.request(e.name())
		e.take(remembered.Name).release()
		taken := e.request(e.name())
		holder := e.take(taken.Name)
		for what, req := range map[string]abstractions.AcquireRequest{"unseen name": fresh, "remembered name": remembered, "held name": taken} {
			e.cleanUp(e.peer, req)
			_, err := e.try(e.p, req) // the delayed acquire arrives
			if what == "held name" && errors.Is(err, abstractions.ErrHeld) {
				holder.release() // the name may be free when it arrives
				e.cleanUp(e.peer, req)
				_, err = e.try(e.p, req)
			}
			e.is(err, abstractions.ErrReleased, what)
		}
		e.isFree(fresh.Name)
		e.isFree(remembered.Name)
	}},
}

// race lets many claims ask at once and returns the only winner.
func (e *env) race(name string) *claim {
	claims, errs := e.together(24, func() abstractions.AcquireRequest { return e.request(name) })
	var winner *claim
	for i, err := range errs {
		if err != nil {
			e.held(err)
			continue
		}
		e.Nil(winner, "two holders of %q", name)
		winner = claims[i]
	}
	e.NotNil(winner, "%q has no holder", name)
	winner.isHeld()
	return winner
}

// together makes n attempts at once, half of them from the other client.
func (e *env) together(n int, req func() abstractions.AcquireRequest) ([]*claim, []error) {
	claims, errs := make([]*claim, n), make([]error, n)
	sideBySide(n, func(i int) {
		errs[i] = e.settled(func(context.Context) (err error) {
			claims[i], err = e.try(e.either(i), req())
			return err
		})
	})
	return claims, errs
}
