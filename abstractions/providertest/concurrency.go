package providertest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var concurrencyChecks = []suite.Check{
	// The check passes two names around among many claims. Leases are long, so
	// a claim inside a section holds the section's lease.
	{Name: "Concurrent_HandoversNeverOverlap", Run: func(e *suite.Env) {
		sections := []*section{{name: e.Name()}, {name: e.Name()}}
		suite.SideBySide(8, func(i int) {
			for round := range 8 {
				sections[(i+round)%2].pass(e, e.Either(i), i)
			}
		})
		for _, s := range sections {
			e.IsFree(s.name)
		}
	}},
	// The check sends many requests at once, which may share a call to the backend. Some of the requests are refused.
	{Name: "Trap_T66_EachOfManyAtOnceIsDecidedByItself", Run: func(e *suite.Env) {
		holder, gone, left := e.Take(e.Name()), e.Take(e.Name()), e.Take(e.Name())
		e.Break(abstractions.BreakRequest{Name: gone.Req.Name, Immediate: true})
		left.Release() // the object that stored this lease may be reused for another claim
		for range 4 {
			suite.SideBySide(25, func(i int) {
				switch i % 5 {
				case 0:
					e.Held(e.Retry(suite.Sending(e.P.Acquire, e.Request(holder.Req.Name))))
				case 1:
					e.Lost(e.Retry(suite.Sending(e.P.Renew, gone.RenewRequest(e.Long))))
				case 2:
					e.NoError(e.Retry(suite.Sending(e.P.Renew, holder.RenewRequest(e.Long))))
				case 3:
					e.Lost(e.Retry(suite.Sending(e.P.Renew, left.RenewRequest(e.Long))))
				default:
					own := e.TakeWithRetry(e.P, e.Name())
					e.NoError(e.Retry(suite.Sending(suite.Releasing(own.P), own.ReleaseRequest())))
				}
			})
		}
		holder.IsHeld()
	}},
	// The check breaks leases while they are renewed with a longer TTL and other claims begin to wait for their names. A renewal
	// before the break counts; a renewal after the break is refused.
	{Name: "Trap_T66_ARenewalThatMeetsABreakIsStoredOrRefused", Run: func(e *suite.Env) {
		_, queued := abstractions.As[abstractions.Waiter](e.Peer)
		batcher, batched := abstractions.As[abstractions.BatchRenewer](e.P)
		for round := range 8 {
			claims, renewed := make([]*suite.Claim, 8), make([]error, 8)
			reqs := make([]abstractions.RenewRequest, len(claims))
			for i := range claims {
				req := e.Request(e.Name())
				req.TTL = suite.Grantable(e.Long/2, e.Caps)
				claims[i] = e.Acquire(e.P, req)
				reqs[i] = claims[i].RenewRequest(e.Long)
				reqs[i].Metadata = map[string]string{"renewed": "yes"}
			}
			sent := e.Now()
			suite.SideBySide(4*len(claims), func(i int) {
				claim, role := i/4, (i+i/4)%4 // the calls for a name begin in any order
				switch {
				case i == 0 && batched && round%2 == 1:
					results, err := suite.Send(e, batcher.RenewBatch, reqs)
					for item := range renewed {
						if renewed[item] = err; err == nil {
							renewed[item] = results[item].Err
						}
					}
				case role == 0 && !(batched && round%2 == 1):
					renewed[claim] = e.Retry(suite.Sending(e.P.Renew, reqs[claim]))
				case role == 1:
					e.NoError(e.Retry(suite.Sending(e.Peer.Break, abstractions.BreakRequest{Name: reqs[claim].Name})))
				case role > 1 && queued:
					w := e.Register(e.Peer, e.Request(reqs[claim].Name))
					defer w.Leave()
					e.Held(e.Retry(suite.Sending(w.P.Acquire, w.Req)))
				}
			})
			for i, c := range claims {
				switch {
				case errors.Is(renewed[i], abstractions.ErrUnavailable):
					continue
				case renewed[i] != nil:
					e.Lost(renewed[i], abstractions.LostBroken, abstractions.LostGone)
					continue
				}
				c.Sent, c.Returned, c.Ttl = sent, e.Now(), e.Long
				record := e.Inspect(c.Req.Name)
				e.True(record.Held, "it runs out by itself")
				e.Equal("yes", record.Metadata["renewed"])
				if left, known := record.Remaining(); known {
					c.IsRemaining(left, c.Returned, e.Now())
				}
			}
		}
	}},
	// The check calls all methods on few names from many goroutines, for the
	// race detector. Every answer must keep the contract.
	{Name: "Concurrent_EverythingAtOnce", Run: func(e *suite.Env) {
		names := []string{e.Name(), e.Name(), e.Name()}
		suite.SideBySide(8, func(i int) {
			for round := range 6 {
				anyOutcome(e, e.Either(i), names[(i+round)%len(names)])
			}
		})
		for _, name := range names {
			e.Break(abstractions.BreakRequest{Name: name, Immediate: true})
			e.IsFree(name)
		}
	}},
}

// section is the critical section that the lease of a name protects.
type section struct {
	name   string
	inside atomic.Int64 // the token of the claim that is inside
	last   int64        // the token of the last claim that entered; guarded by the lease
}

// pass waits for the name, holds it for a moment and releases the lease.
func (s *section) pass(e *suite.Env, p abstractions.Provider, i int) {
	c := s.enter(e, p, i)
	e.True(s.inside.CompareAndSwap(0, c.Token()), "two holders of %q", s.name)
	e.Greater(c.Token(), s.last, "the token of the next holder of %q", s.name)
	s.last = c.Token()
	time.Sleep(time.Millisecond)
	e.NoError(c.RenewWithRetry())
	e.True(s.inside.CompareAndSwap(c.Token(), 0), "two holders of %q", s.name)
	e.NoError(e.Retry(suite.Sending(suite.Releasing(p), c.ReleaseRequest())))
}

func (s *section) enter(e *suite.Env, p abstractions.Provider, i int) *suite.Claim {
	req := e.Request(s.name)
	for {
		var c *suite.Claim
		err := e.Retry(func(context.Context) (err error) {
			c, err = e.Try(p, req)
			return err
		})
		if err == nil {
			return c
		}
		e.Held(err)
		if e.T.Failed() { // perhaps the goroutine that holds the name has ended
			e.T.FailNow()
		}
		time.Sleep(time.Duration(i+1) * time.Millisecond)
	}
}

func anyOutcome(e *suite.Env, p abstractions.Provider, name string) {
	c, err := e.Try(p, e.Request(name))
	if err != nil {
		c = &suite.Claim{E: e, P: p, Req: e.Request(name), Grant: abstractions.Grant{Token: 1}}
		e.OneOf(err, abstractions.ErrHeld, abstractions.ErrReleased) // another goroutine may break the claim between two attempts
	}
	for _, call := range calls(e, p, name, c) {
		e.OneOf(e.Call(call.do), abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased)
	}
}
