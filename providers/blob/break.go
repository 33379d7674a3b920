package bloblease

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
)

// Break writes into the record that the claim was broken, under the lease of
// that very claim, and then ends the lease: by its own ID, or if the record is
// still the one just written. So it can't hit the next holder.
//
// A lease that ends by itself meanwhile, and is followed by another, was the one that
// was meant: that other one is left alone.
func (d *driver) Break(ctx context.Context, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if req.Grace > maxTTL {
		return abstractions.BreakResult{}, &abstractions.InvalidError{Field: "Grace", Value: req.Grace, Want: "at most 60s, the longest break period of the Blob service"}
	}
	var first view
	wrote := false
	for attempt := range attempts {
		v, err := d.lookToBreak(ctx, req)
		switch {
		case err != nil:
			return abstractions.BreakResult{}, partialIf(wrote, err)
		case attempt == 0:
			first = v
		case v.record.Token != first.record.Token && (wrote || req.IfToken == 0):
			return abstractions.BreakResult{WasHeld: wrote, Token: first.record.Token}, nil
		}
		if req.IfToken != 0 && req.IfToken != v.record.Token {
			return abstractions.BreakResult{}, abstractions.ErrStale
		}
		result, err := d.breakOne(ctx, v, req, &wrote)
		if !isChanged(err) {
			result.WasHeld = result.WasHeld || wrote
			return result, partialIf(wrote, err)
		}
	}
	return abstractions.BreakResult{}, errContended
}

// lookToBreak is look, where a leased blob that has lost its record is shown as one
// that another program has leased: its lease can be broken all the same, and the
// blob stays as it is.
func (d *driver) lookToBreak(ctx context.Context, req abstractions.BreakRequest) (view, error) {
	v, err := d.look(ctx, req.Name)
	if isNotOurs(err) && v.locked() && req.IfToken == 0 {
		v.found, v.record = false, record{}
		return v, nil
	}
	return v, err
}

// breakOne notes in wrote that it has written into the record.
func (d *driver) breakOne(ctx context.Context, v view, req abstractions.BreakRequest, wrote *bool) (abstractions.BreakResult, error) {
	free := abstractions.BreakResult{Token: v.record.Token}
	switch {
	case !v.locked():
		return free, d.breakExpired(ctx, v, req)
	case v.unfinished():
		err := d.store.release(ctx, req.Name, v.record.Over)
		if isChanged(err) {
			return d.breakOther(ctx, v, req)
		}
		return free, err
	case v.record.ID == "": // no claim of ours has it
		return d.breakOther(ctx, v, req)
	}
	r := v.rules(req.Name, "")
	result, c := r.Break(req)
	next := v.record.after(r)
	if c.Write {
		if !req.Immediate {
			next.Grace = max(1, seconds(req.Grace))
		}
		written, err := d.store.write(ctx, req.Name, v, next)
		if bloberror.HasCode(err, bloberror.LeaseIDMismatchWithBlobOperation) {
			return d.breakOther(ctx, v, req)
		}
		if err != nil {
			return abstractions.BreakResult{}, err
		}
		v, *wrote = written, true
	}
	var err error
	if result.Remaining = 0; req.Immediate {
		err = d.endLease(ctx, req.Name, next.Over)
	} else {
		result.Remaining, err = d.store.breakLease(ctx, req.Name, next.period(), v.etag)
	}
	return result, err
}

// breakExpired has a claim that has run out stay so: its holder's renewal would
// revive it. One that was written just now, and has no lease yet, has not run out.
func (d *driver) breakExpired(ctx context.Context, v view, req abstractions.BreakRequest) error {
	r := v.rules(req.Name, v.record.ID)
	if !r.Held() || r.Breaking || req.IfToken == 0 && v.reserved() > 0 {
		return nil
	}
	req.Immediate = true
	r.Break(req)
	_, err := d.store.write(ctx, req.Name, v, v.record.after(r))
	return err
}

// period is how long a lease still runs after a Break, unless that is the rest of its
// time anyway. Without one an infinite lease would end at once
// (learn.microsoft.com/rest/api/storageservices/lease-blob, x-ms-lease-break-period),
// and the lease may be infinite, or longer, although the record has another duration
// already: see renewOne.
func (r record) period() int32 {
	if r.Seconds == infinite {
		return max(1, r.Grace)
	}
	return seconds(maxTTL)
}

// breakPending reports whether a Break was written into the record and has not come to
// the service's lease.
func (v view) breakPending() bool { return v.lease == lease.StateTypeLeased && v.record.Breaking }

// finishBreak does what is left of a Break whose process ended half way, if there is
// one: nobody else would end an infinite lease.
func (d *driver) finishBreak(ctx context.Context, v view, name string) error {
	if !v.breakPending() {
		return nil
	}
	_, err := d.store.breakLease(ctx, name, v.record.period(), v.etag)
	return err
}

// breakOther breaks a lease that another program has taken. It has no token.
func (d *driver) breakOther(ctx context.Context, v view, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	if req.IfToken != 0 {
		return abstractions.BreakResult{}, abstractions.ErrStale
	}
	period := max(1, seconds(req.Grace))
	if req.Immediate {
		period = 0
	} else if req.Grace == 0 {
		period = seconds(maxTTL) // or the rest of its time, if that is shorter
	}
	left, err := d.store.breakLease(ctx, req.Name, period, v.etag)
	return abstractions.BreakResult{WasHeld: true, Token: v.record.Token, Remaining: left}, err
}
