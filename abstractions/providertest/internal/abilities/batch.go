package abilities

import (
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var batchChecks = []suite.Check{
	// The check sends a batch that is larger than the usual 256 of package leasing, and
	// an empty batch.
	{Name: "Batch_RenewsAll", Run: func(e *suite.Env) {
		renewBatch(e)
		prefix := e.Name()
		claims := make([]*suite.Claim, 300)
		reqs := make([]abstractions.RenewRequest, len(claims))
		for i := range claims {
			claims[i] = e.Take(prefix + "/" + e.Unique())
			reqs[i] = claims[i].RenewRequest(e.Long)
		}
		for range 2 {
			for i, result := range renewBatch(e, reqs...) {
				e.NoError(result.Err)
				claims[i].IsGranted(result.Grant)
				e.Equal(claims[i].Token(), result.Grant.Token, "in order, each with its own token")
				reqs[i].State = result.Grant.State
			}
		}
		claims[0].IsHeld()
		claims[299].Grant.State = reqs[299].State
		claims[299].Release()
		e.IsFree(claims[299].Req.Name)
	}},
	{Name: "Batch_SameClaimTwice", Run: func(e *suite.Env) {
		holder := e.Take(e.Name())
		for _, result := range renewBatch(e, holder.RenewRequest(e.Long), holder.RenewRequest(e.Long)) {
			if result.Err != nil {
				e.Unknown(result.Err) // the provider may have skipped one of the two
				continue
			}
			holder.IsGranted(result.Grant)
		}
		holder.IsHeld()
	}},
	// The check compares each item of a batch with a single renewal: the
	// answers must be equal. Only the first and the last can be renewed.
	{Name: "Trap_T66_ItemIsNeitherSuccessNorLossByAccident", Run: func(e *suite.Env) {
		first, last := e.Take(e.Name()), e.Take(e.Name())
		released, broken, taken := e.Take(e.Name()), e.Take(e.Name()), e.Take(e.Name())
		released.Release()
		e.Break(abstractions.BreakRequest{Name: broken.Req.Name})
		e.Break(abstractions.BreakRequest{Name: taken.Req.Name, Immediate: true})
		e.Take(taken.Req.Name)
		stranger := &suite.Claim{E: e, Req: e.Request(first.Req.Name), Grant: first.Grant}
		unseen := &suite.Claim{E: e, Req: e.Request(e.Name()), Grant: abstractions.Grant{Token: 1}}
		reqs := []abstractions.RenewRequest{first.RenewRequest(e.Long), first.RenewRequest(0)} // the second has no TTL
		for _, c := range []*suite.Claim{released, broken, taken, stranger, unseen, last} {
			reqs = append(reqs, c.RenewRequest(e.Long))
		}
		for i, result := range renewBatch(e, reqs...) {
			grant, err := suite.Send(e, e.P.Renew, reqs[i])
			switch i {
			case 0, len(reqs) - 1:
				e.NoError(err)
				e.NoError(result.Err, "item %d can be renewed", i)
				grant.State, result.Grant.State = nil, nil
				e.Equal(grant, result.Grant, "item %d", i)
				continue
			case 1:
				e.Invalid(err)
				e.Invalid(result.Err, "item %d", i)
			default:
				e.Lost(err)
				e.Lost(result.Err)
			}
			e.Zero(result.Grant.Token, "item %d has failed, and has a grant", i)
		}
		first.IsHeld()
		last.IsHeld()
	}},
}

// renewBatch renews in one batch.
func renewBatch(e *suite.Env, reqs ...abstractions.RenewRequest) []abstractions.RenewResult {
	results, err := suite.Send(e, suite.Ability[abstractions.BatchRenewer](e, e.P).RenewBatch, reqs)
	e.NoError(err)
	e.Len(results, len(reqs), "one result for each request")
	return results
}
