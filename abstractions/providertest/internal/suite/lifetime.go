package suite

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// LatestEnd returns the time from which others must be able to acquire the name.
func (c *Claim) LatestEnd() time.Time {
	return c.Returned.Add(c.Ttl + c.E.Caps.Lateness.After(c.Ttl) + c.E.Tolerance(c.Ttl))
}

// RunOut waits until the lease must be over.
func (c *Claim) RunOut() {
	c.E.Watch(c.Req.Name)
	c.E.SleepUntil(c.LatestEnd())
}

// Watch makes both clients read a name, if they have to: see Harness.Watched.
func (e *Env) Watch(name string) {
	if e.Watched {
		for client, p := range e.Clients() {
			_, err := Send(e, p.Inspect, abstractions.InspectRequest{Name: name})
			e.NoError(err, client)
		}
	}
}

// TakeShort acquires a short lease of a new name.
func (e *Env) TakeShort() *Claim {
	return e.Acquire(e.P, e.ShortRequest(e.Name()))
}

// ExpiredClaim returns a claim to a new name whose lease has run out.
func (e *Env) ExpiredClaim() *Claim {
	holder := e.TakeShort()
	holder.RunOut()
	return holder
}

// Alive reports whether the lease can't have run out yet.
func (c *Claim) Alive() bool { return c.E.Now().Before(c.Sent.Add(c.Ttl)) }

// Contend tries to acquire the name at a given time, checks that the answer is allowed then, and
// returns the new holder, or nil if the name is held.
func (c *Claim) Contend(req abstractions.AcquireRequest, at time.Time) *Claim {
	c.E.SleepUntil(at)
	next, err := c.E.Try(c.E.Peer, req)
	if err == nil {
		c.E.GreaterOrEqual(next.Returned.Sub(c.Sent), c.Ttl-c.E.Tolerance(c.Ttl),
			"granted to another this long after the holder asked for %v: early", c.Ttl)
		c.E.Greater(next.Token(), c.Token(), "the token of the next holder")
		return next
	}
	held := c.E.Held(err)
	c.E.True(next.Sent.Before(c.LatestEnd()), "still refused %v after the holder was granted %v: late", next.Sent.Sub(c.Returned), c.Ttl)
	if left, known := held.Holder.Remaining(); known && held.Holder.Held && !held.Holder.Unconfirmed {
		c.IsRemaining(left, next.Sent, next.Returned)
	}
	return nil
}

// IsRemaining requires that left, reported between sent and returned, is a possible
// remaining time of the claim.
func (c *Claim) IsRemaining(left time.Duration, sent, returned time.Time) {
	slack := c.E.Caps.Lateness.After(c.Ttl) + c.E.Tolerance(c.Ttl)
	c.E.GreaterOrEqual(left, c.Sent.Add(c.Ttl).Sub(returned)-slack, "time left")
	c.E.LessOrEqual(left, max(0, c.Returned.Add(c.Ttl).Sub(sent))+slack, "time left")
}

// RunsOutTo contends for the name until the lease has run out, and returns the
// next holder.
func (c *Claim) RunsOutTo(req abstractions.AcquireRequest) *Claim {
	for _, part := range []float64{0, 0.25, 0.5, 0.75, 0.9, 0.97} {
		if next := c.Contend(req, c.Sent.Add(time.Duration(part*float64(c.Ttl)))); next != nil {
			return next
		}
	}
	if next := c.Contend(req, c.Sent.Add(c.Ttl-1)); next != nil {
		return next
	}
	next := c.Contend(req, c.LatestEnd())
	c.E.NotNil(next, "free at last")
	return next
}

// RepeatUntilDone repeats a scenario in which a lease must stay alive, until the scenario
// runs without a stall of the machine.
func (e *Env) RepeatUntilDone(scenario func() (done bool)) {
	for range 20 {
		if scenario() {
			return
		}
	}
	e.Fail("this machine stalls for longer than the leases that the suite watches: set Harness.TTL")
}
