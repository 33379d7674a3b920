package providertest

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var acquireChecks = []suite.Check{
	{Name: "Trap_T13_LostReplyIsTriedAgain", Run: func(e *suite.Env) {
		first := e.Take(e.Name())
		for client, p := range e.Clients() { // as if its reply had been lost
			again, err := e.Try(p, first.Req)
			e.NoError(err, "an acquire with the ID of the present holder, by the %s", client)
			again.IsGranted(again.Grant)
			e.Equal(first.Token(), again.Token(), "the same claim has the same token: %s", client)
		}
		first.IsHeld()
		first.Release()
		e.IsFree(first.Req.Name)
	}},
	{Name: "Trap_T13_RepetitionsAtOnceAreOneClaim", Run: func(e *suite.Env) {
		req := e.Request(e.Name())
		claims, errs := together(e, 16, func() abstractions.AcquireRequest { return req })
		for i := range claims {
			e.NoError(errs[i])
			e.Equal(claims[0].Token(), claims[i].Token(), "one claim has one token")
		}
		claims[0].IsHeld()
	}},
	{Name: "Trap_T18_OneOfManyRacersWins", Run: func(e *suite.Env) {
		for range 3 {
			name := e.Name()
			first := race(e, name) // for a name without a record
			first.Release()
			second := race(e, name) // for one with a record
			e.Greater(second.Token(), first.Token())
		}
	}},
	{Name: "Trap_T56_ReleasedIDIsRefused", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		holder.Release()
		for client, p := range e.Clients() {
			_, err := e.Try(p, holder.Req)
			e.Is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that was released, by the %s", client)
		}
		e.IsFree(holder.Req.Name)
	}},
	// In virtual time the check lets two minutes pass between the claims.
	{Name: "Trap_T56_LastEightAreRefused", Run: func(e *suite.Env) {
		var ended []*suite.Claim
		name := e.Name()
		for range 8 {
			ended = append(ended, e.Take(name))
			ended[len(ended)-1].Release()
			if e.Virtual {
				e.SleepUntil(e.Now().Add(2 * time.Minute))
			}
		}
		for i, c := range ended {
			_, err := e.Try(e.Either(i), c.Req)
			e.Is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that was released, and %d others after it", len(ended)-1-i)
		}
		e.IsFree(name)
	}},
	// The check keeps a name busy for most of a minute, if time is virtual or
	// can be advanced.
	{Name: "Trap_T56_IDsOfTheLastMinuteAreRefused", Needs: "Remembers", Run: func(e *suite.Env) {
		name := e.Name()
		ended, at := make([]*suite.Claim, e.Remembers), make([]time.Time, e.Remembers)
		for i := range ended {
			if e.Virtual || e.Advance != nil {
				e.SleepUntil(e.Now().Add(50 * time.Second / time.Duration(len(ended))))
			}
			ended[i], at[i] = e.Take(name), e.Now()
			if i%2 == 0 {
				ended[i].Release()
			} else {
				e.Break(abstractions.BreakRequest{Name: name, Immediate: true})
			}
		}
		for i, c := range ended {
			_, err := e.Try(e.Either(i), c.Req)
			if e.Now().Sub(at[i]) < 59*time.Second {
				e.Is(err, abstractions.ErrReleased, "an acquire with the ID of a claim that ended within the minute, and %d others after it", len(ended)-1-i)
			}
		}
	}},
	{Name: "Trap_T56_DelayedAcquireDoesNotLandAfterItsRelease", Run: func(e *suite.Env) {
		fresh := e.Request(e.Name())
		remembered := e.Request(e.Name())
		e.Take(remembered.Name).Release()
		taken := e.Request(e.Name())
		holder := e.Take(taken.Name)
		for what, req := range map[string]abstractions.AcquireRequest{"unseen name": fresh, "remembered name": remembered, "held name": taken} {
			e.CleanUp(e.Peer, req)
			_, err := e.Try(e.P, req) // the delayed acquire arrives
			if what == "held name" && errors.Is(err, abstractions.ErrHeld) {
				holder.Release() // the name may be free when the delayed acquire arrives
				e.CleanUp(e.Peer, req)
				_, err = e.Try(e.P, req)
			}
			e.Is(err, abstractions.ErrReleased, what)
		}
		e.IsFree(fresh.Name)
		e.IsFree(remembered.Name)
	}},
}

// race makes many claims acquire a name at once and returns the only winner.
func race(e *suite.Env, name string) *suite.Claim {
	claims, errs := together(e, 24, func() abstractions.AcquireRequest { return e.Request(name) })
	var winner *suite.Claim
	for i, err := range errs {
		if err != nil {
			e.Held(err)
			continue
		}
		e.Nil(winner, "two holders of %q", name)
		winner = claims[i]
	}
	e.NotNil(winner, "%q has no holder", name)
	winner.IsHeld()
	return winner
}

// together makes n attempts at once, half of them from the other client.
func together(e *suite.Env, n int, req func() abstractions.AcquireRequest) ([]*suite.Claim, []error) {
	claims, errs := make([]*suite.Claim, n), make([]error, n)
	suite.SideBySide(n, func(i int) {
		errs[i] = e.Retry(func(context.Context) (err error) {
			claims[i], err = e.Try(e.Either(i), req())
			return err
		})
	})
	return claims, errs
}
