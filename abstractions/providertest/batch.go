package providertest

import (
	"github.com/distributedleasing/leasing/abstractions"
)

var batchChecks = []check{
	// It sends a batch larger than the core's usual 256, and an empty batch.
	{name: "Batch_RenewsAll", run: func(e *env) {
		e.renewBatch()
		prefix := e.name()
		claims := make([]*claim, 300)
		reqs := make([]abstractions.RenewRequest, len(claims))
		for i := range claims {
			claims[i] = e.take(prefix + "/" + e.unique())
			reqs[i] = claims[i].renewRequest(e.long)
		}
		for range 2 {
			for i, result := range e.renewBatch(reqs...) {
				e.NoError(result.Err)
				claims[i].isGranted(result.Grant)
				e.Equal(claims[i].token(), result.Grant.Token, "in order, each with its own token")
				reqs[i].State = result.Grant.State
			}
		}
		claims[0].isHeld()
		claims[299].grant.State = reqs[299].State
		claims[299].release()
		e.isFree(claims[299].req.Name)
	}},
	{name: "Batch_SameClaimTwice", run: func(e *env) {
		holder := e.take(e.name())
		for _, result := range e.renewBatch(holder.renewRequest(e.long), holder.renewRequest(e.long)) {
			if result.Err != nil {
				e.unknown(result.Err) // one of the two may have been passed over
				continue
			}
			holder.isGranted(result.Grant)
		}
		holder.isHeld()
	}},
	// It shows that an item of a batch has the same answer as a
	// renewal of its own. Only the first and the last can be renewed.
	{name: "Trap_T66_ItemIsNeitherSuccessNorLossByAccident", run: func(e *env) {
		first, last := e.take(e.name()), e.take(e.name())
		released, broken, taken := e.take(e.name()), e.take(e.name()), e.take(e.name())
		released.release()
		e.breaks(abstractions.BreakRequest{Name: broken.req.Name})
		e.breaks(abstractions.BreakRequest{Name: taken.req.Name, Immediate: true})
		e.take(taken.req.Name)
		stranger := &claim{e: e, req: e.request(first.req.Name), grant: first.grant}
		unseen := &claim{e: e, req: e.request(e.name()), grant: abstractions.Grant{Token: 1}}
		reqs := []abstractions.RenewRequest{first.renewRequest(e.long), first.renewRequest(0)} // the second has no TTL
		for _, c := range []*claim{released, broken, taken, stranger, unseen, last} {
			reqs = append(reqs, c.renewRequest(e.long))
		}
		for i, result := range e.renewBatch(reqs...) {
			grant, err := send(e, e.p.Renew, reqs[i])
			switch i {
			case 0, len(reqs) - 1:
				e.NoError(err)
				e.NoError(result.Err, "item %d can be renewed", i)
				grant.State, result.Grant.State = nil, nil
				e.Equal(grant, result.Grant, "item %d", i)
				continue
			case 1:
				e.invalid(err)
				e.invalid(result.Err, "item %d", i)
			default:
				e.lost(err)
				e.lost(result.Err)
			}
			e.Zero(result.Grant.Token, "item %d has failed, and has a grant", i)
		}
		first.isHeld()
		last.isHeld()
	}},
}

// renewBatch renews in one batch.
func (e *env) renewBatch(reqs ...abstractions.RenewRequest) []abstractions.RenewResult {
	results, err := send(e, ability[abstractions.BatchRenewer](e, e.p).RenewBatch, reqs)
	e.NoError(err)
	e.Len(results, len(reqs), "one result for each request")
	return results
}
