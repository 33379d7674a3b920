package providertest

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// expiryChecks are about leases that end as time passes. These checks wait.
var expiryChecks = []check{
	{name: "Expiry_NeverEarlyNorLate", waits: true, run: func(e *env) {
		holder := e.takeShort()
		holder.runsOutTo(e.request(holder.req.Name)).isHeld()
	}},
	// It compares times of the backend's clock only. The clocks of several servers may differ by the
	// duration of the request.
	{name: "Expiry_TheBackendCountsAllOfTheTTL", run: func(e *env) {
		holder := &claim{e: e, p: e.p, req: e.request(e.name())}
		for round := range 20 {
			before := e.inspect(holder.req.Name)
			if round == 0 {
				holder = e.acquire(e.p, holder.req)
			} else {
				holder.renew(grantable(e.long/time.Duration(1+round%2), e.caps))
			}
			after := e.inspect(holder.req.Name)
			if before.Now.IsZero() || after.ExpiresAt.IsZero() {
				e.leaveOut("this backend does not tell its time, or when a lease ends")
			}
			e.GreaterOrEqual(after.ExpiresAt.Sub(before.Now), holder.ttl-holder.returned.Sub(holder.sent), "the lease ends so long after the request was sent for it")
		}
	}},
	// As above, all times are of the backend's clock. They are kept to a millisecond where they are kept coarsely.
	{name: "Expiry_TheLastRenewalIsKnown", run: func(e *env) {
		holder := e.acquire(e.p, e.request(e.name()))
		if _, known := e.inspect(holder.req.Name).LastRenewed(); !known {
			e.False(e.caps.RemainingKnown, "where a lease's end is known, its last renewal is")
			return
		}
		for round := range 3 {
			e.pause(5 * time.Millisecond)
			before := e.inspect(holder.req.Name)
			holder.renew(grantable(e.long/time.Duration(2-round%2), e.caps))
			after := e.inspect(holder.req.Name)
			at, known := after.LastRenewed()
			took := holder.returned.Sub(holder.sent) + time.Millisecond // the clocks of several servers may differ by this
			e.True(known)
			e.False(at.Before(before.Now.Add(-took)), "%v is before the renewal, which was sent after %v", at, before.Now)
			e.False(at.After(after.Now), "%v is after the read, at %v", at, after.Now)
			e.False(at.Before(after.AcquiredAt), "%v is before the acquire", at)
		}
		name := e.name()
		_, known := e.inspect(name).LastRenewed()
		e.False(known, "a name that is free")
	}},
	{name: "Expiry_OneOfManyTakesOver", waits: true, run: func(e *env) {
		holder := e.expired()
		winner := e.race(holder.req.Name)
		e.Greater(winner.token(), holder.token())
		winner.isHeld()
	}},
	{name: "Expiry_RenewalIsLostOrProvablyRevives", waits: true, run: func(e *env) {
		holder := e.expired()
		err := holder.tryRenew(e.long)
		if err == nil {
			holder.isHeld()
			return
		}
		e.lost(err, abstractions.LostExpired, abstractions.LostGone)
		e.isFree(holder.req.Name)
	}},
	{name: "Expiry_ReleaseIsNoError", waits: true, run: func(e *env) {
		holder := e.expired()
		holder.release()
		_, err := e.try(e.p, holder.req)
		e.is(err, abstractions.ErrReleased, "the ID is refused from then on")
		e.isFree(holder.req.Name)
	}},
	{name: "Expiry_BreakMeetsNobody", waits: true, run: func(e *env) {
		holder := e.expired()
		for _, immediate := range []bool{false, true} {
			result := e.breaks(abstractions.BreakRequest{Name: holder.req.Name, IfToken: holder.token(), Immediate: immediate})
			e.Equal(abstractions.BreakResult{Token: holder.token()}, result)
		}
		e.isFree(holder.req.Name)
	}},
	{name: "Expiry_InspectShowsAFreeName", waits: true, run: func(e *env) {
		holder := e.takeShort()
		for _, part := range []float64{0, 0.5, 0.9} {
			e.sleepUntil(holder.sent.Add(time.Duration(part * float64(holder.ttl))))
			sent := e.now()
			record := e.inspect(holder.req.Name)
			if returned := e.now(); record.Held {
				if left, known := record.Remaining(); known {
					holder.isRemaining(left, sent, returned)
				}
			} else {
				e.GreaterOrEqual(returned.Sub(holder.sent), holder.ttl-e.tolerance(holder.ttl), "shown as free this early")
			}
		}
		holder.runOut()
		record := e.inspect(holder.req.Name)
		e.False(record.Held, "shown as held after it has run out")
		e.Equal(holder.token(), record.Token, "the token is kept")
	}},
	{name: "Expiry_RepeatedAcquireGrantsTTLAnew", waits: true, run: func(e *env) {
		e.undisturbed(func() bool {
			first := e.takeShort()
			e.sleepUntil(first.sent.Add(first.ttl / 2))
			second := e.acquire(e.p, first.req)
			if second.returned.Sub(first.sent) >= first.ttl {
				return false
			}
			e.Equal(first.token(), second.token(), "the same claim has the same token")
			second.runsOutTo(e.request(first.req.Name))
			return true
		})
	}},
	{name: "Expiry_BrokenLeaseRunsOut", waits: true, run: func(e *env) {
		e.undisturbed(func() bool {
			holder := e.takeShort()
			result := e.breaks(abstractions.BreakRequest{Name: holder.req.Name, Grace: time.Millisecond}) // which is for infinite leases
			if !holder.alive() {
				return false
			}
			e.True(result.WasHeld)
			e.Equal(holder.token(), result.Token)
			if e.caps.RemainingKnown {
				holder.isRemaining(result.Remaining, holder.sent, e.now())
			}
			holder.isLost(abstractions.LostBroken, abstractions.LostGone, abstractions.LostExpired)
			next := holder.runsOutTo(e.request(holder.req.Name))
			holder.isLost(abstractions.LostBroken, abstractions.LostGone, abstractions.LostExpired, abstractions.LostTaken)
			next.isHeld()
			return true
		})
	}},
	{name: "Expiry_BrokenInfiniteLeaseRunsOutAfterGrace", waits: true, run: func(e *env) {
		if !e.caps.Infinite {
			e.leaveOut("no infinite leases here")
		}
		name := e.name()
		holder := e.take(name)
		holder.renew(abstractions.Infinite)
		// From here on it is a lease of e.short that began with the break.
		holder.sent = e.now()
		result := e.breaks(abstractions.BreakRequest{Name: name, Grace: e.short})
		holder.returned, holder.ttl = e.now(), e.short
		e.True(result.WasHeld)
		e.LessOrEqual(result.Remaining, e.short)
		holder.runsOutTo(e.request(name)).isHeld()
	}},
	{name: "Trap_T07_RenewalExtendsByItsTTLFromNow", waits: true, run: func(e *env) {
		e.undisturbed(func() bool {
			holder := e.takeShort()
			next := e.request(holder.req.Name)
			for range 2 {
				if holder.contend(next, holder.sent.Add(holder.ttl/4)) != nil || !holder.alive() {
					return false
				}
				sent := holder.sent
				if err := holder.tryRenew(e.short); err != nil {
					e.lost(err)
					e.GreaterOrEqual(e.now().Sub(sent), e.short-e.tolerance(e.short), "lost after this long")
					return false
				}
			}
			holder.runsOutTo(next)
			return true
		})
	}},
	{name: "Trap_T17_MetadataLeavesNoImmortalRecord", waits: true, run: func(e *env) {
		name := e.name()
		req := e.shortRequest(name)
		req.Metadata = map[string]string{"address": "10.0.0.1:80", "region": "north"}
		next := e.acquire(e.p, req).runsOutTo(e.request(name))
		e.Empty(e.inspect(name).Metadata, "metadata of the holder before")
		next.release()
		e.isFree(name)
	}},
	{name: "Trap_T19_ExpiredLeaseBlocksNobody", waits: true, run: func(e *env) {
		holder := e.expired() // no request has come since, so nothing has swept the lease
		next := e.acquire(e.peer, e.request(holder.req.Name))
		e.Greater(next.token(), holder.token())
	}},
	{name: "Trap_T20_RenewalRevivesNothingBesideNewHolder", waits: true, run: func(e *env) {
		holder := e.expired()
		next := e.acquire(e.peer, e.request(holder.req.Name))
		holder.isLost(abstractions.LostTaken) // the backend shows another holder
		next.isHeld()
		next.release()
		holder.isLost(abstractions.LostTaken, abstractions.LostExpired, abstractions.LostGone) // not even when the name is free again
		e.isFree(holder.req.Name)
	}},
	{name: "Trap_T23_StaleHolderGetsNoTokenOfItsSuccessor", waits: true, run: func(e *env) {
		holder := e.expired()
		next := e.acquire(e.peer, e.request(holder.req.Name))
		_, err := e.try(e.p, holder.req)
		e.held(err, "the stale holder asks again with its ID")
		holder.isLost()
		next.isHeld()
	}},
	{name: "Trap_T24_RecordOutlivesALongRenewal", waits: true, run: func(e *env) {
		e.undisturbed(func() bool {
			holder := e.takeShort()
			longer := grantable(e.short+max(e.short/3, e.caps.Granularity), e.caps)
			if err := holder.tryRenew(longer); err != nil {
				e.lost(err)
				e.False(holder.alive(), "lost within its TTL")
				return false
			}
			holder.runsOutTo(e.request(holder.req.Name))
			return true
		})
	}},
	// A provider may reuse the object that kept a lease for the next lease.
	{name: "Expiry_AReleaseShortensNoLeaseThatFollows", waits: true, run: func(e *env) {
		first, second := e.takeShort(), e.takeShort()
		e.sleepUntil(first.sent.Add(first.ttl * 2 / 5))
		first.release()
		second.release()
		next, longer := e.takeShort(), e.take(e.name())
		next.runsOutTo(e.request(next.req.Name)).isHeld()
		longer.contend(e.request(longer.req.Name), e.now())
	}},
	{name: "Trap_T45_ALongLeaseOutlivesTheMemoryOfIdleNames", waits: true, run: func(e *env) {
		if !e.h.Virtual && e.h.Advance == nil || e.h.Watched {
			e.leaveOut("it takes a day, or a process that watches for a day")
		}
		req := e.request(e.name())
		req.TTL = grantable(25*time.Hour, e.caps)
		e.acquire(e.p, req).runsOutTo(e.request(req.Name)).isHeld()
	}},
	{name: "Trap_T26_StaleReleaseFreesNobodyElse", waits: true, run: func(e *env) {
		holder := e.expired()
		next := e.acquire(e.peer, e.request(holder.req.Name)) // with the same owner
		holder.release()
		next.isHeld()
	}},
}

// late is the time from which the lease must be free to others.
func (c *claim) late() time.Time {
	return c.returned.Add(c.ttl + c.e.caps.Lateness.After(c.ttl) + c.e.tolerance(c.ttl))
}

// runOut waits until the lease must be over.
func (c *claim) runOut() {
	c.e.watch(c.req.Name)
	c.e.sleepUntil(c.late())
}

// watch has both clients look at a name, where they have to: see Harness.Watched.
func (e *env) watch(name string) {
	if e.h.Watched {
		for who, p := range e.clients() {
			_, err := send(e, p.Inspect, abstractions.InspectRequest{Name: name})
			e.NoError(err, who)
		}
	}
}

// takeShort acquires a short lease of a new name.
func (e *env) takeShort() *claim {
	return e.acquire(e.p, e.shortRequest(e.name()))
}

// expired is a claim to a new name whose lease has run out.
func (e *env) expired() *claim {
	holder := e.takeShort()
	holder.runOut()
	return holder
}

// alive reports whether the lease can't have run out yet.
func (c *claim) alive() bool { return c.e.now().Before(c.sent.Add(c.ttl)) }

// contend asks for the name at a time, checks that the answer is allowed
// at that time, and returns the new holder, or nil if the name is held.
func (c *claim) contend(req abstractions.AcquireRequest, at time.Time) *claim {
	c.e.sleepUntil(at)
	next, err := c.e.try(c.e.peer, req)
	if err == nil {
		c.e.GreaterOrEqual(next.returned.Sub(c.sent), c.ttl-c.e.tolerance(c.ttl),
			"granted to another this long after the holder asked for %v: early", c.ttl)
		c.e.Greater(next.token(), c.token(), "the token of the next holder")
		return next
	}
	held := c.e.held(err)
	c.e.True(next.sent.Before(c.late()), "still refused %v after the holder was granted %v: late", next.sent.Sub(c.returned), c.ttl)
	if left, known := held.Holder.Remaining(); known && held.Holder.Held && !held.Holder.Unconfirmed {
		c.isRemaining(left, next.sent, next.returned)
	}
	return nil
}

// isRemaining requires that left, reported between sent and returned, is a possible
// remaining time of the claim.
func (c *claim) isRemaining(left time.Duration, sent, returned time.Time) {
	slack := c.e.caps.Lateness.After(c.ttl) + c.e.tolerance(c.ttl)
	c.e.GreaterOrEqual(left, c.sent.Add(c.ttl).Sub(returned)-slack, "time left")
	c.e.LessOrEqual(left, max(0, c.returned.Add(c.ttl).Sub(sent))+slack, "time left")
}

// runsOutTo watches the lease run out, contending all along, and returns the
// next holder.
func (c *claim) runsOutTo(req abstractions.AcquireRequest) *claim {
	for _, part := range []float64{0, 0.25, 0.5, 0.75, 0.9, 0.97} {
		if next := c.contend(req, c.sent.Add(time.Duration(part*float64(c.ttl)))); next != nil {
			return next
		}
	}
	if next := c.contend(req, c.sent.Add(c.ttl-1)); next != nil {
		return next
	}
	next := c.contend(req, c.late())
	c.e.NotNil(next, "free at last")
	return next
}

// undisturbed repeats a scenario, which needs a lease to stay alive, until the
// machine does not stall in the middle of the scenario.
func (e *env) undisturbed(scenario func() (done bool)) {
	for range 20 {
		if scenario() {
			return
		}
	}
	e.Fail("this machine stalls for longer than the leases that the suite watches: set Harness.TTL")
}
