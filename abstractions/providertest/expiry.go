package providertest

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// expiryChecks are about leases that end as time passes. These checks wait.
var expiryChecks = []suite.Check{
	{Name: "Expiry_NeverEarlyNorLate", Waits: true, Run: func(e *suite.Env) {
		holder := e.TakeShort()
		holder.RunsOutTo(e.Request(holder.Req.Name)).IsHeld()
	}},
	// The check compares only times of the backend's clock. If the backend has several servers,
	// their clocks may differ by the duration of the request.
	{Name: "Expiry_TheBackendCountsAllOfTheTTL", Run: func(e *suite.Env) {
		holder := &suite.Claim{E: e, P: e.P, Req: e.Request(e.Name())}
		for round := range 20 {
			before := e.Inspect(holder.Req.Name)
			if round == 0 {
				holder = e.Acquire(e.P, holder.Req)
			} else {
				holder.Renew(suite.Grantable(e.Long/time.Duration(1+round%2), e.Caps))
			}
			after := e.Inspect(holder.Req.Name)
			if before.Now.IsZero() || after.ExpiresAt.IsZero() {
				e.LeaveOut("this backend does not report its time, or when a lease ends")
			}
			e.GreaterOrEqual(after.ExpiresAt.Sub(before.Now), holder.Ttl-holder.Returned.Sub(holder.Sent), "the lease ends so long after the request was sent for it")
		}
	}},
	// As above, all times are of the backend's clock. The coarsest backends store times to the millisecond.
	{Name: "Expiry_TheLastRenewalIsKnown", Run: func(e *suite.Env) {
		holder := e.Acquire(e.P, e.Request(e.Name()))
		if _, known := e.Inspect(holder.Req.Name).LastRenewed(); !known {
			e.False(e.Caps.RemainingKnown, "where a lease's end is known, its last renewal is")
			return
		}
		for round := range 3 {
			e.Pause(5 * time.Millisecond)
			before := e.Inspect(holder.Req.Name)
			holder.Renew(suite.Grantable(e.Long/time.Duration(2-round%2), e.Caps))
			after := e.Inspect(holder.Req.Name)
			at, known := after.LastRenewed()
			took := holder.Returned.Sub(holder.Sent) + time.Millisecond // the clocks of several servers may differ by this much
			e.True(known)
			e.False(at.Before(before.Now.Add(-took)), "%v is before the renewal, which was sent after %v", at, before.Now)
			e.False(at.After(after.Now), "%v is after the read, at %v", at, after.Now)
			e.False(at.Before(after.AcquiredAt), "%v is before the acquire", at)
		}
		name := e.Name()
		_, known := e.Inspect(name).LastRenewed()
		e.False(known, "a name that is free")
	}},
	{Name: "Expiry_OneOfManyTakesOver", Waits: true, Run: func(e *suite.Env) {
		holder := e.ExpiredClaim()
		winner := race(e, holder.Req.Name)
		e.Greater(winner.Token(), holder.Token())
		winner.IsHeld()
	}},
	{Name: "Expiry_RenewalIsLostOrProvablyRevives", Waits: true, Run: func(e *suite.Env) {
		holder := e.ExpiredClaim()
		err := holder.TryRenew(e.Long)
		if err == nil {
			holder.IsHeld()
			return
		}
		e.Lost(err, abstractions.LostExpired, abstractions.LostGone)
		e.IsFree(holder.Req.Name)
	}},
	{Name: "Expiry_ReleaseIsNoError", Waits: true, Run: func(e *suite.Env) {
		holder := e.ExpiredClaim()
		holder.Release()
		_, err := e.Try(e.P, holder.Req)
		e.Is(err, abstractions.ErrReleased, "the ID is refused from then on")
		e.IsFree(holder.Req.Name)
	}},
	{Name: "Expiry_BreakMeetsNobody", Waits: true, Run: func(e *suite.Env) {
		holder := e.ExpiredClaim()
		for _, immediate := range []bool{false, true} {
			result := e.Break(abstractions.BreakRequest{Name: holder.Req.Name, IfToken: holder.Token(), Immediate: immediate})
			e.Equal(abstractions.BreakResult{Token: holder.Token()}, result)
		}
		e.IsFree(holder.Req.Name)
	}},
	{Name: "Expiry_InspectShowsAFreeName", Waits: true, Run: func(e *suite.Env) {
		holder := e.TakeShort()
		for _, part := range []float64{0, 0.5, 0.9} {
			e.SleepUntil(holder.Sent.Add(time.Duration(part * float64(holder.Ttl))))
			sent := e.Now()
			record := e.Inspect(holder.Req.Name)
			if returned := e.Now(); record.Held {
				if left, known := record.Remaining(); known {
					holder.IsRemaining(left, sent, returned)
				}
			} else {
				e.GreaterOrEqual(returned.Sub(holder.Sent), holder.Ttl-e.Tolerance(holder.Ttl), "shown as free this early")
			}
		}
		holder.RunOut()
		record := e.Inspect(holder.Req.Name)
		e.False(record.Held, "shown as held after it has run out")
		e.Equal(holder.Token(), record.Token, "the token is kept")
	}},
	{Name: "Expiry_RepeatedAcquireGrantsTTLAnew", Waits: true, Run: func(e *suite.Env) {
		e.RepeatUntilDone(func() bool {
			first := e.TakeShort()
			e.SleepUntil(first.Sent.Add(first.Ttl / 2))
			second := e.Acquire(e.P, first.Req)
			if second.Returned.Sub(first.Sent) >= first.Ttl {
				return false
			}
			e.Equal(first.Token(), second.Token(), "the same claim has the same token")
			second.RunsOutTo(e.Request(first.Req.Name))
			return true
		})
	}},
	{Name: "Expiry_BrokenLeaseRunsOut", Waits: true, Run: func(e *suite.Env) {
		e.RepeatUntilDone(func() bool {
			holder := e.TakeShort()
			result := e.Break(abstractions.BreakRequest{Name: holder.Req.Name, Grace: time.Millisecond}) // Grace is for infinite leases
			if !holder.Alive() {
				return false
			}
			e.True(result.WasHeld)
			e.Equal(holder.Token(), result.Token)
			if e.Caps.RemainingKnown {
				holder.IsRemaining(result.Remaining, holder.Sent, e.Now())
			}
			holder.IsLost(abstractions.LostBroken, abstractions.LostGone, abstractions.LostExpired)
			next := holder.RunsOutTo(e.Request(holder.Req.Name))
			holder.IsLost(abstractions.LostBroken, abstractions.LostGone, abstractions.LostExpired, abstractions.LostTaken)
			next.IsHeld()
			return true
		})
	}},
	{Name: "Expiry_BrokenInfiniteLeaseRunsOutAfterGrace", Waits: true, Run: func(e *suite.Env) {
		if !e.Caps.Infinite {
			e.LeaveOut("no infinite leases here")
		}
		name := e.Name()
		holder := e.Take(name)
		holder.Renew(abstractions.Infinite)
		// From here on the lease has a TTL of e.Short, which began with the break.
		holder.Sent = e.Now()
		result := e.Break(abstractions.BreakRequest{Name: name, Grace: e.Short})
		holder.Returned, holder.Ttl = e.Now(), e.Short
		e.True(result.WasHeld)
		e.LessOrEqual(result.Remaining, e.Short)
		holder.RunsOutTo(e.Request(name)).IsHeld()
	}},
	{Name: "Trap_T07_RenewalExtendsByItsTTLFromNow", Waits: true, Run: func(e *suite.Env) {
		e.RepeatUntilDone(func() bool {
			holder := e.TakeShort()
			next := e.Request(holder.Req.Name)
			for range 2 {
				if holder.Contend(next, holder.Sent.Add(holder.Ttl/4)) != nil || !holder.Alive() {
					return false
				}
				sent := holder.Sent
				if err := holder.TryRenew(e.Short); err != nil {
					e.Lost(err)
					e.GreaterOrEqual(e.Now().Sub(sent), e.Short-e.Tolerance(e.Short), "lost after this long")
					return false
				}
			}
			holder.RunsOutTo(next)
			return true
		})
	}},
	{Name: "Trap_T17_MetadataLeavesNoImmortalRecord", Waits: true, Run: func(e *suite.Env) {
		name := e.Name()
		req := e.ShortRequest(name)
		req.Metadata = map[string]string{"address": "10.0.0.1:80", "region": "north"}
		next := e.Acquire(e.P, req).RunsOutTo(e.Request(name))
		e.Empty(e.Inspect(name).Metadata, "metadata of the holder before")
		next.Release()
		e.IsFree(name)
	}},
	{Name: "Trap_T19_ExpiredLeaseBlocksNobody", Waits: true, Run: func(e *suite.Env) {
		holder := e.ExpiredClaim() // no request has come since, so nothing has swept the lease
		next := e.Acquire(e.Peer, e.Request(holder.Req.Name))
		e.Greater(next.Token(), holder.Token())
	}},
	{Name: "Trap_T20_RenewalRevivesNothingBesideNewHolder", Waits: true, Run: func(e *suite.Env) {
		holder := e.ExpiredClaim()
		next := e.Acquire(e.Peer, e.Request(holder.Req.Name))
		holder.IsLost(abstractions.LostTaken) // the backend shows another holder
		next.IsHeld()
		next.Release()
		holder.IsLost(abstractions.LostTaken, abstractions.LostExpired, abstractions.LostGone) // not even when the name is free again
		e.IsFree(holder.Req.Name)
	}},
	{Name: "Trap_T23_StaleHolderGetsNoTokenOfItsSuccessor", Waits: true, Run: func(e *suite.Env) {
		holder := e.ExpiredClaim()
		next := e.Acquire(e.Peer, e.Request(holder.Req.Name))
		_, err := e.Try(e.P, holder.Req)
		e.Held(err, "the stale holder asks again with its ID")
		holder.IsLost()
		next.IsHeld()
	}},
	{Name: "Trap_T24_RecordOutlivesALongRenewal", Waits: true, Run: func(e *suite.Env) {
		e.RepeatUntilDone(func() bool {
			holder := e.TakeShort()
			longer := suite.Grantable(e.Short+max(e.Short/3, e.Caps.Granularity), e.Caps)
			if err := holder.TryRenew(longer); err != nil {
				e.Lost(err)
				e.False(holder.Alive(), "lost within its TTL")
				return false
			}
			holder.RunsOutTo(e.Request(holder.Req.Name))
			return true
		})
	}},
	// A provider may store the next lease in the object that stored the previous lease.
	{Name: "Expiry_AReleaseShortensNoLeaseThatFollows", Waits: true, Run: func(e *suite.Env) {
		first, second := e.TakeShort(), e.TakeShort()
		e.SleepUntil(first.Sent.Add(first.Ttl * 2 / 5))
		first.Release()
		second.Release()
		next, longer := e.TakeShort(), e.Take(e.Name())
		next.RunsOutTo(e.Request(next.Req.Name)).IsHeld()
		longer.Contend(e.Request(longer.Req.Name), e.Now())
	}},
	{Name: "Trap_T45_ALongLeaseOutlivesTheMemoryOfIdleNames", Waits: true, Run: func(e *suite.Env) {
		if !e.Virtual && e.Advance == nil || e.Watched {
			e.LeaveOut("it takes a day, or a process that watches for a day")
		}
		req := e.Request(e.Name())
		req.TTL = suite.Grantable(25*time.Hour, e.Caps)
		e.Acquire(e.P, req).RunsOutTo(e.Request(req.Name)).IsHeld()
	}},
	{Name: "Trap_T26_StaleReleaseFreesNobodyElse", Waits: true, Run: func(e *suite.Env) {
		holder := e.ExpiredClaim()
		next := e.Acquire(e.Peer, e.Request(holder.Req.Name)) // with the same owner
		holder.Release()
		next.IsHeld()
	}},
}
