package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	leasing "github.com/distributedleasing/leasing/abstractions"
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
	_ leasing.Provider     = (*recorder)(nil)
	_ leasing.BatchRenewer = batchRecorder{}
	_ leasing.Waiter       = waiterRecorder{}
)

// call is an operation under way.
type call struct {
	r         *recorder
	key       string
	operation Operation
	ended     atomic.Int64 // when its context did, if it has
	stop      func() bool  // watching for that
}

func (r *recorder) begin(ctx context.Context, verb, name, id string, ttl time.Duration) *call {
	number := r.number.Add(1)
	c := &call{r: r, key: fmt.Sprintf("o%d.%d", r.worker, number), operation: Operation{
		Worker: r.worker, number: int(number), Layer: r.layer, Verb: verb, Name: name, TTL: ttl,
		Call: r.clock.now(), Result: Unknown,
	}}
	if id != "" {
		c.operation.Claim = r.claims.label(id)
	}
	r.journal.enter(entry{Key: c.key, Operation: &c.operation})
	c.stop = context.AfterFunc(ctx, func() { c.ended.Store(int64(r.clock.now())) })
	return c
}

// beginRenewal begins a renewal, with the token of the lease that is meant.
func (r *recorder) beginRenewal(ctx context.Context, req leasing.RenewRequest) *call {
	c := r.begin(ctx, "renew", req.Name, req.ID, req.TTL)
	c.operation.Token = req.Token
	return c
}

func (c *call) end(grant leasing.Grant, err error) {
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
		return Done
	case errors.Is(err, leasing.ErrHeld):
		return Held
	case errors.Is(err, leasing.ErrLost):
		return Lost
	case errors.Is(err, leasing.ErrReleased):
		return Released
	}
	for _, definite := range []error{
		leasing.ErrStale, leasing.ErrInvalid, leasing.ErrDenied, leasing.ErrSetup, leasing.ErrThrottled, leasing.ErrClosed, leasing.ErrUnsupported,
	} {
		if errors.Is(err, definite) {
			return Refused
		}
	}
	return Unknown
}

func (r *recorder) Acquire(ctx context.Context, req leasing.AcquireRequest) (leasing.Grant, error) {
	req.ID = r.out(req.ID)
	c := r.begin(ctx, "acquire", req.Name, req.ID, req.TTL)
	grant, err := r.Provider.Acquire(ctx, req)
	c.end(grant, err)
	return r.grant(grant), r.failure(err)
}

func (r *recorder) Renew(ctx context.Context, req leasing.RenewRequest) (leasing.Grant, error) {
	req.ID = r.out(req.ID)
	c := r.beginRenewal(ctx, req)
	grant, err := r.Provider.Renew(ctx, req)
	c.end(grant, err)
	return r.grant(grant), r.failure(err)
}

func (r *recorder) Release(ctx context.Context, req leasing.ReleaseRequest) error {
	req.ID = r.out(req.ID)
	c := r.begin(ctx, "release", req.Name, req.ID, 0)
	err := r.Provider.Release(ctx, req)
	c.end(leasing.Grant{}, err)
	return r.failure(err)
}

func (r *recorder) Break(ctx context.Context, req leasing.BreakRequest) (leasing.BreakResult, error) {
	c := r.begin(ctx, "break", req.Name, "", 0)
	c.operation.Immediate = req.Immediate
	result, err := r.Provider.Break(ctx, req)
	c.end(leasing.Grant{Token: result.Token}, err)
	return result, r.failure(err)
}

func (r *recorder) Inspect(ctx context.Context, req leasing.InspectRequest) (leasing.Record, error) {
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

func (r *recorder) grant(g leasing.Grant) leasing.Grant {
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
