package torture

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// As answers for the abilities that the provider below has, each recorded where
// it changes or waits for a claim.
func (r *recorder) As(target any) bool {
	switch ability := target.(type) {
	case *abstractions.BatchRenewer:
		below, ok := abstractions.As[abstractions.BatchRenewer](r.Provider)
		return answer(ability, abstractions.BatchRenewer(batchRecorder{r, below}), ok)
	case *abstractions.Waiter:
		below, ok := abstractions.As[abstractions.Waiter](r.Provider)
		return answer(ability, abstractions.Waiter(waiterRecorder{r, below}), ok)
	case *abstractions.Pinger:
		return pass(r.Provider, ability)
	case *abstractions.Lister:
		return pass(r.Provider, ability)
	case *abstractions.HistoryReader:
		return pass(r.Provider, ability)
	}
	return false
}

// pass hands on an ability that no check reads.
func pass[T any](p leasing.Provider, ability *T) bool {
	below, ok := abstractions.As[T](p)
	return answer(ability, below, ok)
}

func answer[T any](target *T, with T, ok bool) bool {
	if ok {
		*target = with
	}
	return ok
}

type batchRecorder struct {
	r     *recorder
	below abstractions.BatchRenewer
}

// RenewBatch enters each item as a renewal. One without an answer is unknown.
func (b batchRecorder) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	renamed, calls := make([]abstractions.RenewRequest, len(reqs)), make([]*call, len(reqs))
	for i, req := range reqs {
		req.ID = b.r.out(req.ID)
		renamed[i], calls[i] = req, b.r.beginRenewal(ctx, req)
	}
	results, err := b.below.RenewBatch(ctx, renamed)
	named := make([]abstractions.RenewResult, len(results))
	for i, c := range calls {
		if i >= len(results) {
			c.end(abstractions.Grant{}, errUnanswered)
			continue
		}
		c.end(results[i].Grant, results[i].Err)
		named[i] = abstractions.RenewResult{Grant: b.r.grant(results[i].Grant), Err: b.r.failure(results[i].Err)}
	}
	return named, err
}

// errUnanswered is an item's without a result: its outcome is unknown, whatever
// the batch's error is.
var errUnanswered = fmt.Errorf("%w: the batch has no result for it", leasing.ErrUnavailable)

type waiterRecorder struct {
	r     *recorder
	below abstractions.Waiter
}

func (w waiterRecorder) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	req.ID = w.r.out(req.ID)
	return w.below.Wait(ctx, req)
}
