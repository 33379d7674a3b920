package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// recorder is a provider that enters what it is asked and what it is told.
type recorder struct {
	leasing.Provider
	layer   Layer
	worker  int
	clock   *clock
	journal journal
	claims  *claims
	// rename gives claims the run's IDs on the way down: the layer nearest the
	// manager does.
	rename bool
	number *atomic.Int64 // of the worker's operations
}

var (
	_ leasing.Provider          = (*recorder)(nil)
	_ abstractions.BatchRenewer = batchRecorder{}
	_ abstractions.Waiter       = waiterRecorder{}
)

// call is an operation under way.
type call struct {
	r         *recorder
	key       string
	operation Operation
	ended     atomic.Int64 // when its context did, if it has
	stop      func() bool  // watching for that
}

// begin enters what is asked, all of it: the process may be killed before it is told
// anything.
func (r *recorder) begin(ctx context.Context, id string, o Operation) *call {
	number := r.number.Add(1)
	o.Worker, o.number, o.Layer, o.Call, o.Result = r.worker, int(number), r.layer, r.clock.now(), ResultUnknown
	if id != "" {
		o.Claim = r.claims.label(id)
	}
	c := &call{r: r, key: fmt.Sprintf("o%d.%d", r.worker, number), operation: o}
	r.journal.enter(entry{Key: c.key, Operation: &c.operation})
	c.stop = context.AfterFunc(ctx, func() { c.ended.Store(int64(r.clock.now())) })
	return c
}

// beginRenewal begins a renewal, with the token of the lease that is meant.
func (r *recorder) beginRenewal(ctx context.Context, req abstractions.RenewRequest) *call {
	return r.begin(ctx, req.ID, Operation{Verb: "renew", Name: req.Name, TTL: req.TTL, Token: req.Token})
}

func (c *call) end(grant abstractions.Grant, err error) {
	o := &c.operation
	o.Return = c.r.clock.now()
	if !c.stop() {
		if ended := time.Duration(c.ended.Load()); ended > 0 {
			o.Overrun = o.Return - ended
		}
	}
	o.Result, o.Token = result(err), cmp.Or(grant.Token, o.Token)
	if err != nil {
		o.Error = err.Error()
	} else if grant.TTL > 0 {
		o.TTL = grant.TTL
	}
	if grant.ID != "" && (grant.Name != o.Name || c.r.claims.label(grant.ID) != o.Claim) {
		o.Stray = fmt.Sprintf("%s, claim %s", grant.Name, c.r.claims.label(grant.ID))
	}
	held := (*leasing.HeldError)(nil)
	if errors.As(err, &held) && held.Holder.Held && !held.Holder.Unconfirmed && held.Holder.ID != "" {
		o.Holder = c.r.claims.label(held.Holder.ID)
	}
	c.r.journal.enter(entry{Key: c.key, Operation: o})
}

// result sorts errors as the provider's contract does.
func result(err error) Result {
	switch {
	case err == nil:
		return ResultDone
	case errors.Is(err, leasing.ErrHeld):
		return ResultHeld
	case errors.Is(err, leasing.ErrLost):
		return ResultLost
	case errors.Is(err, leasing.ErrReleased):
		return ResultReleased
	case abstractions.NotApplied(err):
		return ResultRefused
	}
	return ResultUnknown
}

func (r *recorder) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	req.ID = r.out(req.ID)
	c := r.begin(ctx, req.ID, Operation{Verb: "acquire", Name: req.Name, TTL: req.TTL})
	grant, err := r.Provider.Acquire(ctx, req)
	c.end(grant, err)
	return r.grant(grant), r.failure(err)
}

func (r *recorder) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	req.ID = r.out(req.ID)
	c := r.beginRenewal(ctx, req)
	grant, err := r.Provider.Renew(ctx, req)
	c.end(grant, err)
	return r.grant(grant), r.failure(err)
}

func (r *recorder) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	req.ID = r.out(req.ID)
	c := r.begin(ctx, req.ID, Operation{Verb: "release", Name: req.Name})
	err := r.Provider.Release(ctx, req)
	c.end(abstractions.Grant{}, err)
	return r.failure(err)
}

func (r *recorder) Break(ctx context.Context, req abstractions.BreakRequest) (leasing.BreakResult, error) {
	c := r.begin(ctx, "", Operation{Verb: "break", Name: req.Name, Immediate: req.Immediate})
	result, err := r.Provider.Break(ctx, req)
	c.end(abstractions.Grant{Token: result.Token}, err)
	return result, r.failure(err)
}

func (r *recorder) Inspect(ctx context.Context, req abstractions.InspectRequest) (leasing.Record, error) {
	record, err := r.Provider.Inspect(ctx, req)
	record.ID = r.in(record.ID)
	return record, r.failure(err)
}

func (r *recorder) out(id string) string {
	if r.rename {
		return r.claims.out(id)
	}
	return id
}

func (r *recorder) in(id string) string {
	if r.rename {
		return r.claims.in(id)
	}
	return id
}

func (r *recorder) grant(g abstractions.Grant) abstractions.Grant {
	if g.ID != "" {
		g.ID = r.in(g.ID)
	}
	return g
}

// failure gives a refusal's holder its manager's ID back. The chain stays, with a
// copy at its head for errors.As to find first: the original may be shared.
func (r *recorder) failure(err error) error {
	held := (*leasing.HeldError)(nil)
	if !r.rename || !errors.As(err, &held) || r.in(held.Holder.ID) == held.Holder.ID {
		return err
	}
	renamed := *held
	renamed.Holder.ID = r.in(held.Holder.ID)
	return fmt.Errorf("%w (%w)", &renamed, err)
}
