package providertest

import (
	"maps"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// holderChecks are about a holder's calls for its lease, and about the answers that other clients get.
var holderChecks = []suite.Check{
	{Name: "Renew_ManyAtOnce", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		suite.SideBySide(16, func(i int) {
			one := *holder
			one.P = e.Either(i)
			e.NoError(one.RenewWithRetry())
		})
		holder.IsHeld()
	}},
	{Name: "Trap_T14_RepeatedRenewalIsNoConflict", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		req := holder.RenewRequest(e.Long)
		for range 3 { // the SDK below may retry a request without the provider's knowledge
			grant, err := suite.Send(e, e.P.Renew, req)
			e.NoError(err)
			e.Equal(holder.Token(), grant.Token)
		}
		release := holder.ReleaseRequest()
		for range 3 {
			e.Release(e.P, release)
		}
		e.IsFree(holder.Req.Name)
	}},
	{Name: "Trap_T15_StateBeforeALostReplyStillWorks", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		state := holder.Grant.State
		holder.Renew(e.Long) // its reply was lost: the holder continues with the earlier state
		holder.Grant.State = state
		holder.Renew(e.Long)
		holder.Grant.State = state
		holder.Release()
		e.IsFree(holder.Req.Name)

		another := e.Take(e.Name())
		again := e.Acquire(e.Peer, another.Req) // by a second attempt
		again.Renew(e.Long)
		another.Renew(e.Long)
		another.Release()
		e.IsFree(another.Req.Name)
	}},
	{Name: "Trap_T22_TokenDoesNotRiseOnRenewal", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		token := holder.Token()
		for range 5 {
			holder.Renew(e.Long)
			e.Equal(token, holder.Grant.Token)
			e.Equal(token, e.Inspect(holder.Req.Name).Token)
		}
	}},
	// The check sends renewals that differ from the holder's in one field.
	{Name: "Trap_T84_RenewalIsTheHolders", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		for _, state := range []any{holder.Grant.State, nil} {
			older, newer, stranger := holder.RenewRequest(e.Long), holder.RenewRequest(e.Long), holder.RenewRequest(e.Long)
			older.Token--
			newer.Token++
			stranger.ID = e.Id()
			for what, req := range map[string]abstractions.RenewRequest{"an older token": older, "a newer token": newer, "another ID": stranger} {
				req.State = state
				_, err := suite.Send(e, e.P.Renew, req)
				e.Error(err, "a renewal with "+what)
				e.Lost(err)
				if batcher, ok := abstractions.As[abstractions.BatchRenewer](e.P); ok {
					_, err := suite.Send(e, suite.RenewInBatch(batcher), req)
					e.Error(err, "a renewal in a batch with "+what)
					e.Lost(err)
				}
			}
			e.Release(e.P, abstractions.ReleaseRequest{Name: stranger.Name, ID: stranger.ID, Token: stranger.Token, State: state})
			holder.IsHeld()
		}
		holder.Renew(e.Long)
	}},
	{Name: "Trap_T14_SecondReleaseIsNoError", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		for range 3 {
			holder.Release()
		}
		next := e.Take(holder.Req.Name)
		holder.Release() // a late repetition
		next.IsHeld()
	}},
	{Name: "Trap_T26_ReleaseByAnotherIDFreesNothing", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		e.Release(e.Peer, abstractions.ReleaseRequest{
			Name: holder.Req.Name, ID: e.Id(), Token: holder.Token(), State: holder.Grant.State,
		})
		holder.IsHeld()
		holder.Renew(e.Long)
	}},
	// The check tries a few times, because the remaining servers may need a moment to notice the loss.
	{Name: "Lose_TakesNoLease", Needs: "Lose", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		e.Lose(e.T, e.P, holder.Req.Name)
		for i := range 4 {
			_, err := e.Try(e.Either(i), e.Request(holder.Req.Name))
			if !holder.Alive() {
				return
			}
			e.Error(err, "a second holder")
			e.OneOf(err, abstractions.ErrHeld)
		}
	}},
	{Name: "Remove_EndsTheLease", Needs: "Remove", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		e.Remove(e.T, e.P, holder.Req.Name)
		if batcher, ok := abstractions.As[abstractions.BatchRenewer](e.P); ok {
			e.Lost(suite.Second(suite.Send(e, suite.RenewInBatch(batcher), holder.RenewRequest(e.Long))))
		}
		holder.IsLost(abstractions.LostGone, abstractions.LostExpired, abstractions.LostBroken)
		next := e.TakeWithRetry(e.P, holder.Req.Name)
		e.Greater(next.Token(), holder.Token())
		holder.IsLost()
		holder.Release()
		next.IsHeld()
	}},
	{Name: "Inspect_ShowsTheLease", Run: func(e *suite.Env) {
		req := e.Request(e.Name())
		req.Metadata = map[string]string{"region": "north"}
		holder := e.Acquire(e.P, req)
		first := e.Inspect(req.Name)
		for _, ttl := range []time.Duration{e.Long, suite.Grantable(e.Long/2, e.Caps), e.Long} {
			record := e.Inspect(req.Name)
			e.Equal([]any{true, abstractions.FingerprintOf(req.ID), req.Owner, holder.Token(), req.Metadata}, []any{record.Held, record.Fingerprint, record.Owner, record.Token, record.Metadata})
			e.Equal(holder.Ttl, record.TTL, "the TTL that was granted last")
			e.Equal(first.AcquiredAt, record.AcquiredAt, "a renewal does not change when it was acquired")
			e.False(record.Breaking || record.Unconfirmed)
			holder.Renew(ttl)
		}
		holder.Release()
		free := e.Inspect(req.Name)
		free.Now = time.Time{}
		e.Equal(abstractions.Record{Name: req.Name, Token: holder.Token()}, free, "nothing of the holder is left but its token")
	}},
	{Name: "Inspect_MapsAreNotShared", Run: func(e *suite.Env) {
		req := e.Request(e.Name())
		req.Metadata = map[string]string{"region": "north"}
		want := maps.Clone(req.Metadata)
		e.Acquire(e.P, req)
		e.Equal(want, req.Metadata, "the provider does not change the request's map")
		req.Metadata["region"] = "south"
		record := e.Inspect(req.Name)
		e.Equal(want, record.Metadata, "the provider does not keep the request's map")
		record.Metadata["region"] = "west"
		if held := e.IsRefused(req.Name).Holder.Metadata; held != nil {
			held["region"] = "east"
		}
		e.Equal(want, e.Inspect(req.Name).Metadata, "what is returned is the caller's")
	}},
}
