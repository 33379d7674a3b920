package providertest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

var concurrencyChecks = []check{
	// It passes two names around among many claims. Leases are
	// long, so a claim inside a section holds the section's lease.
	{name: "Concurrent_HandoversNeverOverlap", run: func(e *env) {
		sections := []*section{{name: e.name()}, {name: e.name()}}
		sideBySide(8, func(i int) {
			for round := range 8 {
				sections[(i+round)%2].pass(e, e.either(i), i)
			}
		})
		for _, s := range sections {
			e.isFree(s.name)
		}
	}},
	// It sends requests at once that may share a call to the backend, and some of which are refused.
	{name: "Trap_T66_EachOfManyAtOnceIsDecidedByItself", run: func(e *env) {
		holder, gone, left := e.take(e.name()), e.take(e.name()), e.take(e.name())
		e.breaks(abstractions.BreakRequest{Name: gone.req.Name, Immediate: true})
		left.release() // the object that kept this lease may be reused for another claim
		for range 4 {
			sideBySide(25, func(i int) {
				switch i % 5 {
				case 0:
					e.held(e.settled(sending(e.p.Acquire, e.request(holder.req.Name))))
				case 1:
					e.lost(e.settled(sending(e.p.Renew, gone.renewRequest(e.long))))
				case 2:
					e.NoError(e.settled(sending(e.p.Renew, holder.renewRequest(e.long))))
				case 3:
					e.lost(e.settled(sending(e.p.Renew, left.renewRequest(e.long))))
				default:
					own := e.settledTake(e.p, e.name())
					e.NoError(e.settled(sending(releasing(own.p), own.releaseRequest())))
				}
			})
		}
		holder.isHeld()
	}},
	// It breaks leases while they are renewed for longer and other claims begin to wait for their names. A renewal before the break
	// counts; a renewal after the break is refused.
	{name: "Trap_T66_ARenewalThatMeetsABreakIsStoredOrRefused", run: func(e *env) {
		_, queued := abstractions.As[abstractions.Waiter](e.peer)
		batcher, batched := abstractions.As[abstractions.BatchRenewer](e.p)
		for round := range 8 {
			claims, renewed := make([]*claim, 8), make([]error, 8)
			reqs := make([]abstractions.RenewRequest, len(claims))
			for i := range claims {
				req := e.request(e.name())
				req.TTL = grantable(e.long/2, e.caps)
				claims[i] = e.acquire(e.p, req)
				reqs[i] = claims[i].renewRequest(e.long)
				reqs[i].Metadata = map[string]string{"renewed": "yes"}
			}
			sent := e.now()
			sideBySide(4*len(claims), func(i int) {
				switch who := i / 4; {
				case i == 0 && batched && round%2 == 1:
					results, err := send(e, batcher.RenewBatch, reqs)
					for item := range renewed {
						if renewed[item] = err; err == nil {
							renewed[item] = results[item].Err
						}
					}
				case i%4 == 0 && !(batched && round%2 == 1):
					renewed[who] = e.settled(sending(e.p.Renew, reqs[who]))
				case i%4 == 1:
					e.NoError(e.settled(sending(e.peer.Break, abstractions.BreakRequest{Name: reqs[who].Name})))
				case i%4 > 1 && queued:
					w := e.register(e.peer, e.request(reqs[who].Name))
					defer w.leave()
					e.held(e.settled(sending(w.p.Acquire, w.req)))
				}
			})
			for i, c := range claims {
				switch {
				case errors.Is(renewed[i], abstractions.ErrUnavailable):
					continue
				case renewed[i] != nil:
					e.lost(renewed[i], abstractions.LostBroken, abstractions.LostGone)
					continue
				}
				c.sent, c.returned, c.ttl = sent, e.now(), e.long
				record := e.inspect(c.req.Name)
				e.True(record.Held, "it runs out by itself")
				e.Equal("yes", record.Metadata["renewed"])
				if left, known := record.Remaining(); known {
					c.isRemaining(left, c.returned, e.now())
				}
			}
		}
	}},
	// It calls all methods on few names from many goroutines, for
	// the race detector; and no answer is out of the contract.
	{name: "Concurrent_EverythingAtOnce", run: func(e *env) {
		names := []string{e.name(), e.name(), e.name()}
		sideBySide(8, func(i int) {
			for round := range 6 {
				e.anyOutcome(e.either(i), names[(i+round)%len(names)])
			}
		})
		for _, name := range names {
			e.breaks(abstractions.BreakRequest{Name: name, Immediate: true})
			e.isFree(name)
		}
	}},
}

// section is the critical section that the lease of a name protects.
type section struct {
	name   string
	inside atomic.Int64 // the token of the claim that is inside
	last   int64        // the token of the last claim that entered; guarded by the lease
}

// pass waits for the name, holds it for a moment and gives it back.
func (s *section) pass(e *env, p abstractions.Provider, i int) {
	c := s.enter(e, p, i)
	e.True(s.inside.CompareAndSwap(0, c.token()), "two holders of %q", s.name)
	e.Greater(c.token(), s.last, "the token of the next holder of %q", s.name)
	s.last = c.token()
	time.Sleep(time.Millisecond)
	e.NoError(c.settledRenew())
	e.True(s.inside.CompareAndSwap(c.token(), 0), "two holders of %q", s.name)
	e.NoError(e.settled(sending(releasing(p), c.releaseRequest())))
}

func (s *section) enter(e *env, p abstractions.Provider, i int) *claim {
	req := e.request(s.name)
	for {
		var c *claim
		err := e.settled(func(context.Context) (err error) {
			c, err = e.try(p, req)
			return err
		})
		if err == nil {
			return c
		}
		e.held(err)
		if e.t.Failed() { // the goroutine that holds the name has ended, perhaps
			e.t.FailNow()
		}
		time.Sleep(time.Duration(i+1) * time.Millisecond)
	}
}

func (e *env) anyOutcome(p abstractions.Provider, name string) {
	c, err := e.try(p, e.request(name))
	if err != nil {
		c = &claim{e: e, p: p, req: e.request(name), grant: abstractions.Grant{Token: 1}}
		e.oneOf(err, abstractions.ErrHeld, abstractions.ErrReleased) // broken by another between two attempts of the client's
	}
	for _, call := range e.calls(p, name, c) {
		e.oneOf(e.call(call.do), abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased)
	}
}

// oneOf says that err is nil, of one of the kinds, or unknown.
func (e *env) oneOf(err error, kinds ...error) {
	if err == nil || errors.Is(err, abstractions.ErrUnavailable) {
		return
	}
	for _, kind := range kinds {
		if errors.Is(err, kind) {
			e.is(err, kind)
			return
		}
	}
	e.NoError(err)
}
