package providertest

import (
	"context"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
)

var renewChecks = []check{
	{name: "Renew_ManyAtOnce", run: func(e *env) {
		holder := e.take(e.name())
		var all sync.WaitGroup
		for i := range 16 {
			one := *holder
			one.p = e.either(i)
			all.Go(func() {
				e.NoError(e.settled(func(context.Context) error { return one.tryRenew(e.long) }))
			})
		}
		all.Wait()
		holder.isHeld()
	}},
	{name: "Trap_T14_RepeatedRenewalIsNoConflict", run: func(e *env) {
		holder := e.take(e.name())
		req := holder.renewRequest(e.long)
		for range 3 { // the SDK below retries what the provider does not see
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
			stranger.ID = abstractions.NewID()
			for what, req := range map[string]abstractions.RenewRequest{"an older token": older, "a newer token": newer, "another ID": stranger} {
				req.State = state
				_, err := send(e, e.p.Renew, req)
				e.Error(err, "a renewal with "+what)
				e.lost(err)
				if batcher, ok := abstractions.As[abstractions.BatchRenewer](e.p); ok {
					results, err := send(e, batcher.RenewBatch, []abstractions.RenewRequest{req})
					e.NoError(err)
					e.Len(results, 1)
					e.Error(results[0].Err, "a renewal in a batch with "+what)
					e.lost(results[0].Err)
				}
			}
			e.release(e.p, abstractions.ReleaseRequest{Name: stranger.Name, ID: stranger.ID, Token: stranger.Token, State: state})
			holder.isHeld()
		}
		holder.renew(e.long)
	}},
}
