package providertest

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var tokenChecks = []suite.Check{
	{Name: "Trap_T21_ReleaseKeepsTheToken", Run: func(e *suite.Env) {
		checkTokenRises(e, func(holder *suite.Claim) {
			holder.Release()
			e.Equal(holder.Token(), e.Inspect(holder.Req.Name).Token)
		})
	}},
	{Name: "Trap_T28_TokenRisesThroughForgetting", Needs: "Forget", Run: func(e *suite.Env) {
		checkTokenRises(e, func(holder *suite.Claim) {
			holder.Release()
			e.Forget(e.T, e.P, holder.Req.Name)
			e.Zero(e.Inspect(holder.Req.Name).Token, "after Harness.Forget the name has never been seen")
		})
	}},
	// The check makes the backend forget names while another name is held. The held name must stay, although its last request may be
	// older.
	{Name: "Trap_T28_ForgettingTakesNoLease", Needs: "Forget", Run: func(e *suite.Env) {
		ttl := e.Long
		if e.Caps.Infinite {
			ttl = abstractions.Infinite
		} else if e.Virtual {
			e.LeaveOut("no lease here lasts for longer than a name is remembered")
		}
		holder := e.Take(e.Name())
		holder.Renew(ttl)
		var idle []*suite.Claim
		for range 24 {
			idle = append(idle, e.Take(e.Name()))
			idle[len(idle)-1].Release()
		}
		for _, c := range idle {
			if e.Inspect(c.Req.Name).Token != 0 { // an earlier call of Forget may have forgotten it
				e.Forget(e.T, e.P, c.Req.Name)
			}
			e.Zero(e.Inspect(c.Req.Name).Token)
		}
		holder.IsHeld()
		holder.Renew(e.Long)
		holder.Release()
	}},
	// The check makes the backend forget some names repeatedly while others are used. The others are free
	// for a moment between two holders, so a sweep may find a name idle just before it is acquired.
	{Name: "Trap_T28_ForgettingMeetsNoHolder", Needs: "Forget", Run: func(e *suite.Env) {
		if e.Virtual || e.Advance != nil {
			e.LeaveOut("the time that has to pass before a name is forgotten ends leases too")
		}
		var over atomic.Bool
		suite.SideBySide(9, func(i int) {
			if i == 8 {
				defer over.Store(true)
				for began, rounds := time.Now(), 0; rounds < 20 && time.Since(began) < 3*time.Second; rounds++ {
					idle := e.TakeWithRetry(e.P, e.Name())
					e.NoError(e.Retry(suite.Sending(suite.Releasing(idle.P), idle.ReleaseRequest())))
					e.Forget(e.T, e.P, idle.Req.Name)
					time.Sleep(5 * time.Millisecond)
				}
				return
			}
			for name, last := e.Name(), int64(0); !over.Load(); time.Sleep(time.Duration(rand.N(4)) * time.Millisecond) {
				holder := e.TakeWithRetry(e.Either(i), name)
				e.Greater(holder.Token(), last)
				last = holder.Token()
				time.Sleep(time.Millisecond)
				e.NoError(holder.RenewWithRetry())
				e.NoError(e.Retry(suite.Sending(suite.Releasing(holder.P), holder.ReleaseRequest())))
			}
		})
	}},
	// The backend's clock may differ from ours by an hour: a token from a plain
	// counter would be off by half a century.
	{Name: "Trap_T54_TokenFollowsTheClock", Run: func(e *suite.Env) {
		checkTokenRises(e, func(holder *suite.Claim) {
			e.WithinDuration(e.Now(), time.UnixMicro(holder.Token()), time.Hour, "the token is the backend's time in microseconds, or just above the one before")
			holder.Release()
		})
	}},
	// The check sets the backend's clock back to before the token of a name, after the name was
	// forgotten if the harness has Forget.
	{Name: "Trap_T54_TokenRisesAlthoughTheClockWentBack", Needs: "Advance", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		holder.Release()
		if e.Forget != nil {
			e.Forget(e.T, e.P, holder.Req.Name)
		}
		taken := time.UnixMicro(holder.Token())
		e.Advance(e.P, taken.Sub(e.Inspect(holder.Req.Name).Now)-time.Second)
		if !e.Inspect(holder.Req.Name).Now.Before(taken) {
			e.LeaveOut("this backend's clock does not go back")
		}
		e.Greater(e.Take(holder.Req.Name).Token(), holder.Token())
	}},
	// The check acquires several names at once, since the requests may share a statement. A record whose token is ahead of the clock
	// must not be forgotten.
	{Name: "Trap_T54_TokenRisesAlthoughItIsAheadOfTheClock", Needs: "Ahead", Run: func(e *suite.Env) {
		names, last := make([]string, 8), make([]int64, 8)
		for i := range names {
			holder := e.Take(e.Name())
			names[i] = holder.Req.Name
			holder.Release()
			e.Ahead(e.T, e.P, names[i])
			last[i] = e.Inspect(names[i]).Token
			e.Greater(last[i], holder.Token()+time.Minute.Microseconds(), "Harness.Ahead raises the token")
		}
		if e.Forget != nil {
			idle := e.Take(e.Name())
			idle.Release()
			e.Forget(e.T, e.P, idle.Req.Name)
		}
		for range 3 {
			suite.SideBySide(len(names), func(i int) {
				holder := e.TakeWithRetry(e.Either(i), names[i])
				e.Greater(holder.Token(), last[i])
				last[i] = holder.Token()
				e.Equal(last[i], e.Inspect(names[i]).Token)
				e.NoError(holder.RenewWithRetry())
				e.NoError(e.Retry(suite.Sending(suite.Releasing(holder.P), holder.ReleaseRequest())))
			})
		}
	}},
	// The check sets the backend's clock to the year 2255.
	{Name: "Trap_T65_NoTokenFollowsTheLast", Needs: "Advance", Run: func(e *suite.Env) {
		name := e.Name()
		e.Advance(e.P, time.UnixMicro(abstractions.MaxToken).Sub(e.Inspect(name).Now)+time.Hour)
		c, err := e.Try(e.P, e.Request(name))
		if err == nil {
			c.IsGranted(c.Grant)
			return
		}
		e.True(abstractions.NotApplied(err), "%v", err)
		e.False(e.Inspect(name).Held)
	}},
	{Name: "Trap_T65_TokenIsTheSameEverywhere", Run: func(e *suite.Env) {
		name := e.Name()
		for range 3 {
			holder := e.Take(name)
			token := holder.Token()
			e.Equal(token, e.Inspect(name).Token, "Inspect")
			held := e.IsRefused(name).Holder
			if !held.Fingerprint.IsZero() {
				e.Equal(token, held.Token, "HeldError")
			}
			again := e.Acquire(e.P, holder.Req)
			e.Equal(token, again.Token(), "Acquire again")
			holder.Renew(e.Long)
			e.Equal(token, holder.Token(), "Renew")
			if lister, ok := abstractions.As[abstractions.Lister](e.P); ok {
				for _, record := range e.List(lister, abstractions.ListRequest{Prefix: name}) {
					e.Equal(token, record.Token, "List")
				}
			}
			if batcher, ok := abstractions.As[abstractions.BatchRenewer](e.P); ok {
				grant, err := suite.Send(e, suite.RenewInBatch(batcher), holder.RenewRequest(e.Long))
				e.NoError(err)
				e.Equal(token, grant.Token, "RenewBatch")
			}
			result := e.Break(abstractions.BreakRequest{Name: name, IfToken: token, Immediate: true})
			e.Equal(token, result.Token, "Break")
		}
	}},
}

// checkTokenRises acquires a name several times, ends each lease with end, and requires that the tokens rise.
func checkTokenRises(e *suite.Env, end func(holder *suite.Claim)) {
	name, last := e.Name(), int64(0)
	for range 4 {
		holder := e.Take(name)
		e.Greater(holder.Token(), last)
		last = holder.Token()
		end(holder)
	}
}
