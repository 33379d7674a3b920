package bloblease

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
)

// breakLease writes into the record that the claim was broken, under the lease of
// that very claim, and then ends the lease: by its own ID, or if the record is
// still the one just written. So it can't hit the next holder.
//
// A lease that ends by itself meanwhile, and is followed by another, was the one that
// was meant: that other one is left alone.
func (p *Provider) breakLease(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	var first view
	wrote := false
	for attempt := range attempts {
		v, err := p.lookToBreak(ctx, req)
		switch {
		case err != nil:
			return abstractions.BreakResult{}, halfIf(wrote, err)
		case attempt == 0:
			first = v
		case v.record.Token != first.record.Token && (wrote || req.IfToken == 0):
			return abstractions.BreakResult{WasHeld: wrote, Token: first.record.Token}, nil
		}
		if req.IfToken != 0 && req.IfToken != v.record.Token {
			return abstractions.BreakResult{}, abstractions.ErrStale
		}
		result, applied, err := p.breakOne(ctx, v, req)
		wrote = wrote || applied
		if !isMoved(err) {
			result.WasHeld = result.WasHeld || wrote
			return result, halfIf(wrote, err)
		}
	}
	return abstractions.BreakResult{}, fmt.Errorf("%w: %w", abstractions.ErrUnavailable, errContended)
}

// lookToBreak is look, where a leased blob that has lost its record is shown as one
// that another program has leased: its lease can be broken all the same, and the
// blob stays as it is.
func (p *Provider) lookToBreak(ctx context.Context, req abstractions.BreakRequest) (view, error) {
	v, err := p.look(ctx, req.Name)
	if isForeign(err) && v.locked() && req.IfToken == 0 {
		v.found, v.record = false, record{}
		return v, nil
	}
	return v, err
}

// breakOne reports whether it has written into the record.
func (p *Provider) breakOne(ctx context.Context, v view, req abstractions.BreakRequest) (result abstractions.BreakResult, wrote bool, err error) {
	switch free := (abstractions.BreakResult{Token: v.record.Token}); {
	case !v.locked():
		return free, false, p.breakExpired(ctx, v, req)
	case v.record.ID == "": // no claim of ours has it
		result, err = p.breakForeign(ctx, v, req)
		return result, false, err
	case v.unfinished():
		err = p.store.release(ctx, req.Name, v.record.ID)
		if isMoved(err) {
			free, err = p.breakForeign(ctx, v, req)
		}
		return free, false, err
	}
	next := v.record.broken(req)
	if next.Phase != v.record.Phase {
		held := v
		v, err = p.store.write(ctx, req.Name, v, next, v.record.ID)
		if hasCode(err, bloberror.LeaseIDMismatchWithBlobOperation) {
			result, err = p.breakForeign(ctx, held, req)
			return result, false, err
		}
		if err != nil {
			return abstractions.BreakResult{}, false, err
		}
		wrote = true
	}
	v.record = next
	result, err = p.endLease(ctx, v, req)
	return result, wrote, err
}

// broken makes the record of a claim that is broken.
func (r record) broken(req abstractions.BreakRequest) record {
	if req.Immediate {
		return r.end(broken)
	}
	r.Phase, r.Grace = breaking, max(1, seconds(req.Grace))
	return r
}

// breakExpired has a claim that has run out stay so: its holder's renewal would
// revive it. One that was written just now, and has no lease yet, has not run out.
func (p *Provider) breakExpired(ctx context.Context, v view, req abstractions.BreakRequest) error {
	r := v.record
	if r.ID == "" || r.Phase != claimed && r.Phase != breaking || v.isBroken() || req.IfToken == 0 && v.reserved() > 0 {
		return nil
	}
	_, err := p.store.write(ctx, req.Name, v, r.end(broken), "")
	return err
}

// endLease ends the lease of a claim whose record says that it was broken.
func (p *Provider) endLease(ctx context.Context, v view, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if req.Immediate {
		return abstractions.BreakResult{WasHeld: true, Token: v.record.Token}, p.free(ctx, req.Name, v.record.ID)
	}
	left, err := p.store.breakLease(ctx, req.Name, to.Ptr(v.record.period()), v.etag)
	return abstractions.BreakResult{WasHeld: true, Token: v.record.Token, Remaining: left}, err
}

// period is how long a lease still runs after a Break, unless that is the rest of its
// time anyway. Without one an infinite lease would end at once
// (learn.microsoft.com/rest/api/storageservices/lease-blob, x-ms-lease-break-period).
func (r record) period() int32 {
	if r.Seconds == infinite {
		return max(1, r.Grace)
	}
	return r.Seconds
}

// halfBroken reports whether a Break was written into the record and has not come to
// the service's lease, which its holder can go on renewing.
func (v view) halfBroken() bool {
	return v.found && v.lease == lease.StateTypeLeased && v.record.Phase == breaking
}

// finishBreak does what is left of a Break whose process ended half way, if there is
// one: nobody else would end an infinite lease.
func (p *Provider) finishBreak(ctx context.Context, v view, name string) error {
	if !v.halfBroken() {
		return nil
	}
	_, err := p.store.breakLease(ctx, name, to.Ptr(v.record.period()), v.etag)
	return err
}

// breakForeign breaks a lease that another program has taken. It has no token.
func (p *Provider) breakForeign(ctx context.Context, v view, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if req.IfToken != 0 {
		return abstractions.BreakResult{}, abstractions.ErrStale
	}
	period := to.Ptr(max(1, seconds(req.Grace)))
	if req.Immediate {
		period = to.Ptr[int32](0)
	} else if req.Grace == 0 {
		period = to.Ptr(seconds(maxTTL)) // or the rest of its time, if that is shorter
	}
	left, err := p.store.breakLease(ctx, req.Name, period, v.etag)
	return abstractions.BreakResult{WasHeld: true, Token: v.record.Token, Remaining: left}, err
}
