package run

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// Share returns an Options.Open for a provider that all workers share, and that no worker closes.
func Share(provider leasing.Provider) func(context.Context) (leasing.Provider, error) {
	direct := func(ctx context.Context, x *providerkit.Exchange) (any, error) { return x.Send(ctx, x.Request) }
	return func(context.Context) (leasing.Provider, error) {
		return sharedProvider{providerkit.Intercept(provider, direct)}, nil
	}
}

type sharedProvider struct{ *providerkit.Intercepted }

func (sharedProvider) Close() error { return nil }

// tap is called with a renewal, which it may change, and returns a function that is called with the result.
type tap func(ctx context.Context, req *abstractions.RenewRequest) func(*abstractions.RenewResult)

// sendRenewal sends a renewal, and calls a tap.
func sendRenewal(ctx context.Context, x *providerkit.Exchange, req abstractions.RenewRequest, each tap) (abstractions.Grant, error) {
	end := each(ctx, &req)
	reply, err := x.Send(ctx, req)
	result := abstractions.RenewResult{Grant: reply.(abstractions.Grant), Err: err}
	end(&result)
	return result.Grant, result.Err
}

// sendBatch sends a batch, and calls a tap for each of its renewals.
func sendBatch(ctx context.Context, x *providerkit.Exchange, reqs []abstractions.RenewRequest, each tap) ([]abstractions.RenewResult, error) {
	reqs, ends := slices.Clone(reqs), make([]func(*abstractions.RenewResult), len(reqs))
	for i := range reqs {
		ends[i] = each(ctx, &reqs[i])
	}
	reply, err := x.Send(ctx, reqs)
	results := reply.([]abstractions.RenewResult)
	for i, end := range ends {
		switch {
		case i < len(results) && (results[i].Err != nil || results[i].Grant.ID != ""):
			end(&results[i])
		case err == nil:
			end(&abstractions.RenewResult{Err: errUnanswered})
		default: // the batch failed
			end(&abstractions.RenewResult{Err: leasing.ErrUnavailable})
		}
	}
	return results, err
}

// errUnanswered is the error of an item without a result in a batch that was answered. The item's outcome is
// unknown.
var errUnanswered = fmt.Errorf("%w: the batch has no result for it", leasing.ErrUnavailable)

// recorder is a provider that records its requests and their replies.
type recorder struct {
	*providerkit.Intercepted
	layer   history.Layer
	worker  int
	clock   *clock
	journal history.Journal
	number  *atomic.Int64 // the number of the worker's latest operation
	// held has the worker's holds, by the lease's ID. It is nil in the recorder of the backend's answers.
	held *sync.Map
}

// above returns a copy of r that wraps a provider.
func (r recorder) above(p leasing.Provider) *recorder {
	r.Intercepted = providerkit.Intercept(p, (&r).handle)
	return &r
}

// call is an operation in flight.
type call struct {
	r         *recorder
	ctx       context.Context
	operation history.Operation
	ended     atomic.Int64 // when its context ended; 0 until then
	stop      func() bool  // stops watching the context
}

// claimIDs maps fingerprints to the IDs of claims that workers of this process have requested and not released.
// Records do not have IDs, but a late copy of a request needs the ID.
var claimIDs sync.Map

// begin records the whole request, because the process may be killed before the reply
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
	if c.ctx.Err() != nil && errors.Is(err, context.Cause(c.ctx)) { // for example the cause set by a manager's Close
		o.Result = history.ResultUnknown
	}
	if err == nil && grant.TTL > 0 {
		o.TTL = grant.TTL
	}
	if grant.ID != "" && (grant.Name != o.Name || claimOf(grant.ID) != o.Claim) {
		o.WrongName, o.WrongClaim = grant.Name, claimOf(grant.ID)
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

// handle records a call. Reads and waits are not recorded.
func (r *recorder) handle(ctx context.Context, x *providerkit.Exchange) (reply any, err error) {
	switch req := x.Request.(type) {
	case abstractions.AcquireRequest:
		claimIDs.Store(abstractions.FingerprintOf(req.ID), req.ID)
		number, _ := ctx.Value(waitKey{}).(int)
		c := r.begin(ctx, history.Operation{Verb: "acquire", Name: req.Name, Claim: claimOf(req.ID), Wait: number, TTL: req.TTL})
		reply, err = x.Send(ctx, req)
		c.end(reply.(abstractions.Grant), err)
	case abstractions.RenewRequest:
		return sendRenewal(ctx, x, req, r.renews)
	case []abstractions.RenewRequest:
		return sendBatch(ctx, x, req, r.renews)
	case abstractions.ReleaseRequest:
		claimIDs.Delete(abstractions.FingerprintOf(req.ID))
		o := history.Operation{Verb: "release", Name: req.Name, Claim: claimOf(req.ID)}
		if r.held != nil {
			hold, ok := r.held.Load(req.ID)
			o.Early = ok && hold.(*holdRecorder).inUse()
		}
		c := r.begin(ctx, o)
		reply, err = x.Send(ctx, req)
		c.end(abstractions.Grant{}, err)
	case abstractions.BreakRequest:
		c := r.begin(ctx, history.Operation{Verb: "break", Name: req.Name, Immediate: req.Immediate, Grace: req.Grace, IfToken: req.IfToken, By: by(req.Actor, req.Reason)})
		reply, err = x.Send(ctx, req)
		result := reply.(leasing.BreakResult)
		c.operation.NoHolder = err == nil && !result.WasHeld
		c.end(abstractions.Grant{Token: result.Token}, err)
	default:
		return x.Send(ctx, req)
	}
	return reply, err
}

// renews records a renewal, with the token of the renewed lease.
func (r *recorder) renews(ctx context.Context, req *abstractions.RenewRequest) func(*abstractions.RenewResult) {
	c := r.begin(ctx, history.Operation{Verb: "renew", Name: req.Name, Claim: claimOf(req.ID), TTL: req.TTL, Token: req.Token})
	return func(result *abstractions.RenewResult) {
		c.operation.Unanswered = result.Err == errUnanswered //nolint:errorlint // this error is never wrapped
		c.end(result.Grant, result.Err)
	}
}
