package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// recorder is a provider that enters its requests and their replies.
type recorder struct {
	leasing.Provider
	layer   layer
	worker  int
	clock   *clock
	journal journal
	number  *atomic.Int64 // of the worker's operations
	// held are the worker's holds by the lease's ID; nil at the backend.
	held *sync.Map
}

// call is an operation in flight.
type call struct {
	r         *recorder
	ctx       context.Context
	operation operation
	ended     atomic.Int64 // the end of its context; 0 before
	stop      func() bool  // stops watching the context
}

// begin enters the whole request, because the process may be killed before the reply
// arrives.
func (r *recorder) begin(ctx context.Context, o operation) *call {
	o.Worker, o.Number, o.Layer, o.Call, o.Result = r.worker, int(r.number.Add(1)), r.layer, r.clock.now(), resultUnknown
	if deadline, ok := ctx.Deadline(); ok {
		o.Deadline = r.clock.at(deadline)
	}
	c := &call{r: r, ctx: ctx, operation: o}
	r.journal.enter(o)
	c.stop = context.AfterFunc(ctx, func() { c.ended.Store(int64(r.clock.now())) })
	return c
}

func (c *call) end(grant abstractions.Grant, err error) {
	o := &c.operation
	o.Return = c.r.clock.now()
	if !c.stop() {
		if ended := time.Duration(c.ended.Load()); ended > 0 {
			o.Overrun = o.Return - ended
		}
	}
	o.Result, o.Token = resultOf(err), cmp.Or(grant.Token, o.Token)
	if c.ctx.Err() != nil && errors.Is(err, context.Cause(c.ctx)) { // for example the cause of a closed manager
		o.Result = resultUnknown
	}
	if err == nil && grant.TTL > 0 {
		o.TTL = grant.TTL
	}
	if grant.ID != "" && (grant.Name != o.Name || claimOf(grant.ID) != o.Claim) {
		o.Stray, o.StrayClaim = grant.Name, claimOf(grant.ID)
	}
	if held, is := errors.AsType[*leasing.HeldError](err); is && held.Holder.Held && !held.Holder.Unconfirmed {
		o.Holder = held.Holder.Fingerprint.String()
	}
	if lost, is := errors.AsType[*leasing.LostError](err); is {
		o.Why, o.By = lost.Reason, by(lost.BrokenBy, lost.BreakReason)
	}
	if throttled, is := errors.AsType[*leasing.ThrottledError](err); is {
		o.Pause = throttled.RetryAfter
	}
	c.r.journal.enter(*o)
}

// by returns the actor and the reason of a break.
func by(actor, reason string) string { return strings.TrimSpace(actor + " " + reason) }

// resultOf classifies errors by the provider's contract.
func resultOf(err error) result {
	switch {
	case err == nil:
		return resultDone
	case errors.Is(err, leasing.ErrHeld):
		return resultHeld
	case errors.Is(err, leasing.ErrLost):
		return resultLost
	case errors.Is(err, leasing.ErrReleased):
		return resultReleased
	case abstractions.NotApplied(err):
		return resultRefused
	}
	return resultUnknown
}

// waitKey is the key of a wait's number in its context.
type waitKey struct{}

func (r *recorder) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	asked.Store(abstractions.FingerprintOf(req.ID), req.ID)
	number, _ := ctx.Value(waitKey{}).(int)
	c := r.begin(ctx, operation{Verb: "acquire", Name: req.Name, Claim: claimOf(req.ID), Wait: number, TTL: req.TTL})
	grant, err := r.Provider.Acquire(ctx, req)
	c.end(grant, err)
	return grant, err
}

func (r *recorder) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	c := r.begin(ctx, renewal(req))
	grant, err := r.Provider.Renew(ctx, req)
	c.end(grant, err)
	return grant, err
}

// renewal returns the operation of a renewal, with the token of the renewed lease.
func renewal(req abstractions.RenewRequest) operation {
	return operation{Verb: "renew", Name: req.Name, Claim: claimOf(req.ID), TTL: req.TTL, Token: req.Token}
}

func (r *recorder) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	asked.Delete(abstractions.FingerprintOf(req.ID))
	o := operation{Verb: "release", Name: req.Name, Claim: claimOf(req.ID)}
	if r.held != nil {
		hold, ok := r.held.Load(req.ID)
		o.Early = ok && hold.(*holdRecorder).inUse()
	}
	c := r.begin(ctx, o)
	err := r.Provider.Release(ctx, req)
	c.end(abstractions.Grant{}, err)
	return err
}

func (r *recorder) Break(ctx context.Context, req abstractions.BreakRequest) (leasing.BreakResult, error) {
	c := r.begin(ctx, operation{Verb: "break", Name: req.Name, Immediate: req.Immediate, Grace: req.Grace, IfToken: req.IfToken, By: by(req.Actor, req.Reason)})
	result, err := r.Provider.Break(ctx, req)
	c.operation.Vain = err == nil && !result.WasHeld
	c.end(abstractions.Grant{Token: result.Token}, err)
	return result, err
}

// As forwards the abilities of the provider below. Batches are recorded.
func (r *recorder) As(target any) bool {
	batcher, ok := target.(*abstractions.BatchRenewer)
	if !ok {
		return forward(r.Provider, target)
	}
	below, ok := abstractions.As[abstractions.BatchRenewer](r.Provider)
	if ok {
		*batcher = batchRecorder{r, below}
	}
	return ok
}

// forward forwards an ability that no check reads. It is abstractions.As for a type that is
// not known at compile time.
func forward(p leasing.Provider, target any) bool {
	if wrapper, ok := p.(interface{ As(target any) bool }); ok {
		return wrapper.As(target)
	}
	ability := reflect.ValueOf(target).Elem()
	ok := reflect.TypeOf(p).Implements(ability.Type())
	if ok {
		ability.Set(reflect.ValueOf(p))
	}
	return ok
}

type batchRecorder struct {
	r     *recorder
	below abstractions.BatchRenewer
}

// RenewBatch enters each item as a renewal. The outcome of an item without an answer is unknown.
func (b batchRecorder) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	calls := make([]*call, len(reqs))
	for i, req := range reqs {
		calls[i] = b.r.begin(ctx, renewal(req))
	}
	results, err := b.below.RenewBatch(ctx, reqs)
	for i, c := range calls {
		if i < len(results) && (results[i].Err != nil || results[i].Grant.ID != "") {
			c.end(results[i].Grant, results[i].Err)
		} else {
			c.operation.Unanswered = err == nil
			c.end(abstractions.Grant{}, errUnanswered)
		}
	}
	return results, err
}

// errUnanswered is the error of an item without a result. Its outcome is unknown, for any
// error of the batch.
var errUnanswered = fmt.Errorf("%w: the batch has no result for it", leasing.ErrUnavailable)
