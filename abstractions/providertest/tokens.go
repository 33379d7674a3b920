package providertest

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

var tokenChecks = []check{
	{name: "Trap_T21_ReleaseKeepsTheToken", run: func(e *env) {
		e.rises(func(holder *claim) {
			holder.release()
			e.Equal(holder.token(), e.inspect(holder.req.Name).Token)
		})
	}},
	{name: "Trap_T28_TokenRisesThroughForgetting", needs: "Forget", run: func(e *env) {
		e.rises(func(holder *claim) {
			holder.release()
			e.h.Forget(e.t, e.p, holder.req.Name)
			e.Zero(e.inspect(holder.req.Name).Token, "after Harness.Forget the name has never been seen")
		})
	}},
	// It has the backend forget a name while another is held, which may
	// have been used for the last time longer ago.
	{name: "Trap_T28_ForgettingTakesNoLease", needs: "Forget", run: func(e *env) {
		ttl := e.long
		if e.caps.Infinite {
			ttl = abstractions.Infinite
		} else if e.h.Virtual {
			e.leaveOut("no lease here lasts for longer than a name is remembered")
		}
		holder := e.take(e.name())
		holder.renew(ttl)
		var idle []*claim
		for range 24 {
			idle = append(idle, e.take(e.name()))
			idle[len(idle)-1].release()
		}
		for _, c := range idle {
			if e.inspect(c.req.Name).Token != 0 { // it may have been forgotten with another
				e.h.Forget(e.t, e.p, c.req.Name)
			}
			e.Zero(e.inspect(c.req.Name).Token)
		}
		holder.isHeld()
		holder.renew(e.long)
		holder.release()
	}},
	// It has the backend forget some names repeatedly while others are used. The names rest a little
	// between two holders, so that a sweep finds a name idle that is in use a moment later.
	{name: "Trap_T28_ForgettingMeetsNoHolder", needs: "Forget", run: func(e *env) {
		if e.h.Virtual || e.h.Advance != nil {
			e.leaveOut("the time that has to pass before a name is forgotten ends leases too")
		}
		var over atomic.Bool
		sideBySide(9, func(i int) {
			if i == 8 {
				defer over.Store(true)
				for began, rounds := time.Now(), 0; rounds < 20 && time.Since(began) < 3*time.Second; rounds++ {
					idle := e.settledTake(e.p, e.name())
					e.NoError(e.settled(sending(releasing(idle.p), idle.releaseRequest())))
					e.h.Forget(e.t, e.p, idle.req.Name)
					time.Sleep(5 * time.Millisecond)
				}
				return
			}
			for name, last := e.name(), int64(0); !over.Load(); time.Sleep(time.Duration(rand.N(4)) * time.Millisecond) {
				holder := e.settledTake(e.either(i), name)
				e.Greater(holder.token(), last)
				last = holder.token()
				time.Sleep(time.Millisecond)
				e.NoError(holder.settledRenew())
				e.NoError(e.settled(sending(releasing(holder.p), holder.releaseRequest())))
			}
		})
	}},
	// It allows the backend's clock an hour against ours: the
	// point is that a count would be off by half a century.
	{name: "Trap_T54_TokenFollowsTheClock", run: func(e *env) {
		e.rises(func(holder *claim) {
			e.WithinDuration(e.now(), time.UnixMicro(holder.token()), time.Hour, "the token is the backend's time in microseconds, or just above the one before")
			holder.release()
		})
	}},
	// It sets the backend's clock back behind the token of a name that is forgotten, if it can be.
	{name: "Trap_T54_TokenRisesAlthoughTheClockWentBack", needs: "Advance", run: func(e *env) {
		holder := e.take(e.name())
		holder.release()
		if e.h.Forget != nil {
			e.h.Forget(e.t, e.p, holder.req.Name)
		}
		taken := time.UnixMicro(holder.token())
		e.h.Advance(e.p, taken.Sub(e.inspect(holder.req.Name).Now)-time.Second)
		if !e.inspect(holder.req.Name).Now.Before(taken) {
			e.leaveOut("this backend's clock does not go back")
		}
		e.Greater(e.take(holder.req.Name).token(), holder.token())
	}},
	// It asks for several names at once, which may share a statement. A record whose token is ahead of the clock can't be forgotten.
	{name: "Trap_T54_TokenRisesAlthoughItIsAheadOfTheClock", needs: "Ahead", run: func(e *env) {
		names, last := make([]string, 8), make([]int64, 8)
		for i := range names {
			holder := e.take(e.name())
			names[i] = holder.req.Name
			holder.release()
			e.h.Ahead(e.t, e.p, names[i])
			last[i] = e.inspect(names[i]).Token
			e.Greater(last[i], holder.token()+time.Minute.Microseconds(), "Harness.Ahead raises the token")
		}
		if e.h.Forget != nil {
			idle := e.take(e.name())
			idle.release()
			e.h.Forget(e.t, e.p, idle.req.Name)
		}
		for range 3 {
			sideBySide(len(names), func(i int) {
				holder := e.settledTake(e.either(i), names[i])
				e.Greater(holder.token(), last[i])
				last[i] = holder.token()
				e.Equal(last[i], e.inspect(names[i]).Token)
				e.NoError(holder.settledRenew())
				e.NoError(e.settled(sending(releasing(holder.p), holder.releaseRequest())))
			})
		}
	}},
	// It has the backend's clock show the year 2255.
	{name: "Trap_T65_NoTokenFollowsTheLast", needs: "Advance", run: func(e *env) {
		name := e.name()
		e.h.Advance(e.p, time.UnixMicro(abstractions.MaxToken).Sub(e.inspect(name).Now)+time.Hour)
		c, err := e.try(e.p, e.request(name))
		if err == nil {
			c.isGranted(c.grant)
			return
		}
		e.True(abstractions.NotApplied(err), "%v", err)
		e.False(e.inspect(name).Held)
	}},
	{name: "Trap_T65_TokenIsTheSameEverywhere", run: func(e *env) {
		name := e.name()
		for range 3 {
			holder := e.take(name)
			token := holder.token()
			e.Equal(token, e.inspect(name).Token, "Inspect")
			held := e.refused(name).Holder
			if !held.Fingerprint.IsZero() {
				e.Equal(token, held.Token, "HeldError")
			}
			again := e.acquire(e.p, holder.req)
			e.Equal(token, again.token(), "Acquire again")
			holder.renew(e.long)
			e.Equal(token, holder.token(), "Renew")
			if lister, ok := abstractions.As[abstractions.Lister](e.p); ok {
				for _, record := range e.list(lister, abstractions.ListRequest{Prefix: name}) {
					e.Equal(token, record.Token, "List")
				}
			}
			if batcher, ok := abstractions.As[abstractions.BatchRenewer](e.p); ok {
				grant, err := send(e, renewInBatch(batcher), holder.renewRequest(e.long))
				e.NoError(err)
				e.Equal(token, grant.Token, "RenewBatch")
			}
			result := e.breaks(abstractions.BreakRequest{Name: name, IfToken: token, Immediate: true})
			e.Equal(token, result.Token, "Break")
		}
	}},
}

// rises has one holder of a name after the other, each with a higher token, and ends
// each in some way.
func (e *env) rises(end func(holder *claim)) {
	name, last := e.name(), int64(0)
	for range 4 {
		holder := e.take(name)
		e.Greater(holder.token(), last)
		last = holder.token()
		end(holder)
	}
}
