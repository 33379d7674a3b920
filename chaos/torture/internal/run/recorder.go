package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// Share makes an Options.Open of a provider that no worker closes.
func Share(provider leasing.Provider) func(context.Context) (leasing.Provider, error) {
	return func(context.Context) (leasing.Provider, error) { return unclosed{provider}, nil }
}

type unclosed struct{ leasing.Provider }

func (unclosed) Close() error { return nil }

// As forwards all abilities of the provider.
func (u unclosed) As(target any) bool { return forward(u.Provider, target) }

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

// tap gets a renewal, which it may change, and returns a function for the result.
type tap func(ctx context.Context, req *abstractions.RenewRequest) func(*abstractions.RenewResult)

func renewed(ctx context.Context, p leasing.Provider, req abstractions.RenewRequest, each tap) (abstractions.Grant, error) {
	end := each(ctx, &req)
	grant, err := p.Renew(ctx, req)
	result := abstractions.RenewResult{Grant: grant, Err: err}
	end(&result)
	return result.Grant, result.Err
}

// forwardRenewals is forward, with a tap for each renewal of a batch.
func forwardRenewals(p leasing.Provider, target any, each tap) bool {
	batcher, ok := target.(*abstractions.BatchRenewer)
	if !ok {
		return forward(p, target)
	}
	below, ok := abstractions.As[abstractions.BatchRenewer](p)
	if ok {
		*batcher = batches{below, each}
	}
	return ok
}

type batches struct {
	below abstractions.BatchRenewer
	each  tap
}

func (b batches) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	reqs, ends := slices.Clone(reqs), make([]func(*abstractions.RenewResult), len(reqs))
	for i := range reqs {
		ends[i] = b.each(ctx, &reqs[i])
	}
	results, err := b.below.RenewBatch(ctx, reqs)
	for i, end := range ends {
		switch {
		case i < len(results) && (results[i].Err != nil || results[i].Grant.ID != ""):
			end(&results[i])
		case err == nil:
			end(&abstractions.RenewResult{Err: errUnanswered})
		default: // for any error of the batch
			end(&abstractions.RenewResult{Err: leasing.ErrUnavailable})
		}
	}
	return results, err
}

// errUnanswered is the error of an item without a result in a batch that was answered. Its outcome is unknown.
var errUnanswered = fmt.Errorf("%w: the batch has no result for it", leasing.ErrUnavailable)

// recorder is a provider that enters its requests and their replies.
type recorder struct {
	leasing.Provider
	layer   history.Layer
	worker  int
	clock   *clock
	journal history.Journal
	number  *atomic.Int64 // of the worker's operations
	// held are the worker's holds by the lease's ID; nil at the backend.
	held *sync.Map
}

// call is an operation in flight.
type call struct {
	r         *recorder
	ctx       context.Context
	operation history.Operation
	ended     atomic.Int64 // the end of its context; 0 before
	stop      func() bool  // stops watching the context
}

// asked maps fingerprints to the IDs of claims that workers of this process have requested and not released.
// Records do not show IDs, and a late copy of a request needs the ID.
var asked sync.Map

// begin enters the whole request, because the process may be killed before the reply
// arrives.
func (r *recorder) begin(ctx context.Context, o history.Operation) *call {
	o.Worker, o.Number, o.Layer, o.Call, o.Result = r.worker, int(r.number.Add(1)), r.layer, r.clock.now(), history.ResultUnknown
	if deadline, ok := ctx.Deadline(); ok {
		o.Deadline = r.clock.at(deadline)
	}
	c := &call{r: r, ctx: ctx, operation: o}
	r.journal.Enter(o)
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
	o.Result, o.Token = history.ResultOf(err), cmp.Or(grant.Token, o.Token)
	if c.ctx.Err() != nil && errors.Is(err, context.Cause(c.ctx)) { // for example the cause of a closed manager
		o.Result = history.ResultUnknown
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
	c.r.journal.Enter(*o)
}

// waitKey is the key of a wait's number in its context.
type waitKey struct{}

func (r *recorder) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	asked.Store(abstractions.FingerprintOf(req.ID), req.ID)
	number, _ := ctx.Value(waitKey{}).(int)
	c := r.begin(ctx, history.Operation{Verb: "acquire", Name: req.Name, Claim: claimOf(req.ID), Wait: number, TTL: req.TTL})
	grant, err := r.Provider.Acquire(ctx, req)
	c.end(grant, err)
	return grant, err
}

func (r *recorder) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	return renewed(ctx, r.Provider, req, r.renews)
}

// renews enters a renewal, with the token of the renewed lease.
func (r *recorder) renews(ctx context.Context, req *abstractions.RenewRequest) func(*abstractions.RenewResult) {
	c := r.begin(ctx, history.Operation{Verb: "renew", Name: req.Name, Claim: claimOf(req.ID), TTL: req.TTL, Token: req.Token})
	return func(result *abstractions.RenewResult) {
		c.operation.Unanswered = result.Err == errUnanswered //nolint:errorlint // this error is never wrapped
		c.end(result.Grant, result.Err)
	}
}

func (r *recorder) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	asked.Delete(abstractions.FingerprintOf(req.ID))
	o := history.Operation{Verb: "release", Name: req.Name, Claim: claimOf(req.ID)}
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
	c := r.begin(ctx, history.Operation{Verb: "break", Name: req.Name, Immediate: req.Immediate, Grace: req.Grace, IfToken: req.IfToken, By: by(req.Actor, req.Reason)})
	result, err := r.Provider.Break(ctx, req)
	c.operation.Vain = err == nil && !result.WasHeld
	c.end(abstractions.Grant{Token: result.Token}, err)
	return result, err
}

// As forwards the abilities of the provider below. Batches are recorded.
func (r *recorder) As(target any) bool { return forwardRenewals(r.Provider, target, r.renews) }
