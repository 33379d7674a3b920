package providertest

import (
	"maps"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// holderChecks are about a holder's calls for its lease, and about the answers that other clients get.
var holderChecks = []check{
	{name: "Renew_ManyAtOnce", run: func(e *env) {
		holder := e.take(e.name())
		sideBySide(16, func(i int) {
			one := *holder
			one.p = e.either(i)
			e.NoError(one.settledRenew())
		})
		holder.isHeld()
	}},
	{name: "Trap_T14_RepeatedRenewalIsNoConflict", run: func(e *env) {
		holder := e.take(e.name())
		req := holder.renewRequest(e.long)
		for range 3 { // the SDK below may retry a request without the provider's knowledge
			grant, err := send(e, e.p.Renew, req)
			e.NoError(err)
			e.Equal(holder.token(), grant.Token)
		}
		release := holder.releaseRequest()
		for range 3 {
			e.release(e.p, release)
		}
		e.isFree(holder.req.Name)
	}},
	{name: "Trap_T15_StateBeforeALostReplyStillWorks", run: func(e *env) {
		holder := e.take(e.name())
		state := holder.grant.State
		holder.renew(e.long) // its reply was lost: the holder goes on with the state before
		holder.grant.State = state
		holder.renew(e.long)
		holder.grant.State = state
		holder.release()
		e.isFree(holder.req.Name)

		another := e.take(e.name())
		again := e.acquire(e.peer, another.req) // by a second attempt
		again.renew(e.long)
		another.renew(e.long)
		another.release()
		e.isFree(another.req.Name)
	}},
	{name: "Trap_T22_TokenDoesNotRiseOnRenewal", run: func(e *env) {
		holder := e.take(e.name())
		token := holder.token()
		for range 5 {
			holder.renew(e.long)
			e.Equal(token, holder.grant.Token)
			e.Equal(token, e.inspect(holder.req.Name).Token)
		}
	}},
	// It tries to renew with all of a holder's grant but one thing.
	{name: "Trap_T84_RenewalIsTheHolders", run: func(e *env) {
		holder := e.take(e.name())
		for _, state := range []any{holder.grant.State, nil} {
			older, newer, stranger := holder.renewRequest(e.long), holder.renewRequest(e.long), holder.renewRequest(e.long)
			older.Token--
			newer.Token++
			stranger.ID = e.id()
			for what, req := range map[string]abstractions.RenewRequest{"an older token": older, "a newer token": newer, "another ID": stranger} {
				req.State = state
				_, err := send(e, e.p.Renew, req)
				e.Error(err, "a renewal with "+what)
				e.lost(err)
				if batcher, ok := abstractions.As[abstractions.BatchRenewer](e.p); ok {
					_, err := send(e, renewInBatch(batcher), req)
					e.Error(err, "a renewal in a batch with "+what)
					e.lost(err)
				}
			}
			e.release(e.p, abstractions.ReleaseRequest{Name: stranger.Name, ID: stranger.ID, Token: stranger.Token, State: state})
			holder.isHeld()
		}
		holder.renew(e.long)
	}},
	{name: "Trap_T14_SecondReleaseIsNoError", run: func(e *env) {
		holder := e.take(e.name())
		for range 3 {
			holder.release()
		}
		next := e.take(holder.req.Name)
		holder.release() // a late repetition
		next.isHeld()
	}},
	{name: "Trap_T26_ReleaseByAnotherIDFreesNothing", run: func(e *env) {
		holder := e.take(e.name())
		e.release(e.peer, abstractions.ReleaseRequest{
			Name: holder.req.Name, ID: e.id(), Token: holder.token(), State: holder.grant.State,
		})
		holder.isHeld()
		holder.renew(e.long)
	}},
	// It asks a few times, because the remaining servers may need a moment to notice the loss.
	{name: "Lose_TakesNoLease", needs: "Lose", run: func(e *env) {
		holder := e.take(e.name())
		e.h.Lose(e.t, e.p, holder.req.Name)
		for i := range 4 {
			_, err := e.try(e.either(i), e.request(holder.req.Name))
			if !holder.alive() {
				return
			}
			e.Error(err, "a second holder")
			e.oneOf(err, abstractions.ErrHeld)
		}
	}},
	{name: "Remove_EndsTheLease", needs: "Remove", run: func(e *env) {
		holder := e.take(e.name())
		e.h.Remove(e.t, e.p, holder.req.Name)
		if batcher, ok := abstractions.As[abstractions.BatchRenewer](e.p); ok {
			e.lost(second(send(e, renewInBatch(batcher), holder.renewRequest(e.long))))
		}
		holder.isLost(abstractions.LostGone, abstractions.LostExpired, abstractions.LostBroken)
		next := e.settledTake(e.p, holder.req.Name)
		e.Greater(next.token(), holder.token())
		holder.isLost()
		holder.release()
		next.isHeld()
	}},
	{name: "Inspect_ShowsTheLease", run: func(e *env) {
		req := e.request(e.name())
		req.Metadata = map[string]string{"region": "north"}
		holder := e.acquire(e.p, req)
		first := e.inspect(req.Name)
		for _, ttl := range []time.Duration{e.long, grantable(e.long/2, e.caps), e.long} {
			record := e.inspect(req.Name)
			e.Equal([]any{true, abstractions.FingerprintOf(req.ID), req.Owner, holder.token(), req.Metadata}, []any{record.Held, record.Fingerprint, record.Owner, record.Token, record.Metadata})
			e.Equal(holder.ttl, record.TTL, "the TTL that was granted last")
			e.Equal(first.AcquiredAt, record.AcquiredAt, "a renewal does not change when it was acquired")
			e.False(record.Breaking || record.Unconfirmed)
			holder.renew(ttl)
		}
		holder.release()
		free := e.inspect(req.Name)
		free.Now = time.Time{}
		e.Equal(abstractions.Record{Name: req.Name, Token: holder.token()}, free, "nothing of the holder is left but its token")
	}},
	{name: "Inspect_MapsAreNotShared", run: func(e *env) {
		req := e.request(e.name())
		req.Metadata = map[string]string{"region": "north"}
		want := maps.Clone(req.Metadata)
		e.acquire(e.p, req)
		e.Equal(want, req.Metadata, "the provider does not change the request's map")
		req.Metadata["region"] = "south"
		record := e.inspect(req.Name)
		e.Equal(want, record.Metadata, "the provider does not keep the request's map")
		record.Metadata["region"] = "west"
		if held := e.refused(req.Name).Holder.Metadata; held != nil {
			held["region"] = "east"
		}
		e.Equal(want, e.inspect(req.Name).Metadata, "what is returned is the caller's")
	}},
}
