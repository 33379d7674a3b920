package bloblease

import (
	"context"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
)

// Acquire looks, writes its claim into the record, and takes the lease if the
// record is still its own: see the package documentation for why in this order.
func (d *driver) Acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	var v view
	for range attempts {
		var err error
		if v, err = d.look(ctx, req.Name); err != nil {
			return abstractions.Grant{}, err
		}
		v, err = d.claim(ctx, v, req)
		if err == nil {
			err = d.store.acquire(ctx, req.Name, req.ID, v.record.Seconds, v.etag)
		}
		switch {
		case err == nil:
			return granted(req.Name, req.ID, req.TTL, v), nil
		case bloberror.HasCode(err, bloberror.LeaseAlreadyPresent):
			// The record is ours and the lease is not: another program's, or one
			// that the service has not freed yet although it shows it as expired.
			return abstractions.Grant{}, heldByUnknown(req.Name, v)
		case !isChanged(err):
			return abstractions.Grant{}, err
		}
	}
	return abstractions.Grant{}, heldByUnknown(req.Name, v)
}

// look is head, where a container that is not there is created, or is as good as
// an empty one, if the options say so.
func (d *driver) look(ctx context.Context, name string) (view, error) {
	v, err := d.store.head(ctx, name)
	if d.willCreate(err) {
		return view{noContainer: true, now: dateOf(err)}, nil
	}
	return v, err
}

// claim writes the record of a claim, or finds it written. It returns ErrHeld,
// ErrReleased, or that the record has changed. A claim that is written already keeps
// its token, also if it has run out: its own retry asks for it.
func (d *driver) claim(ctx context.Context, v view, req abstractions.AcquireRequest) (view, error) {
	r := v.rules(req.Name, req.ID)
	ended, _ := r.Ended.Find(req.ID)
	anew := !ended && r.ID != req.ID
	if anew {
		if err := d.free(ctx, v, req.Name); err != nil {
			return v, err
		}
		r.Floor = d.tokens.Floor(v.now, time.Now())
	}
	c := r.Acquire(req)
	next := v.record.after(r)
	if c.Err != nil || next.equal(v.record) {
		return v, c.Err
	}
	if anew {
		d.tokens.Given(r.Token, v.now)
	}
	if v.exists {
		return d.store.write(ctx, req.Name, v, next)
	}
	if v.noContainer {
		if err := d.store.createContainer(ctx); err != nil {
			return v, err
		}
	}
	return d.store.create(ctx, req.Name, next)
}

// free returns an error unless nobody has the name. A lease whose claim is over was
// about to be released when its process ended, or to be broken: that is done for it,
// and the caller begins again.
func (d *driver) free(ctx context.Context, v view, name string) error {
	switch {
	case v.breakPending():
		if err := d.finishBreak(ctx, v, name); err != nil {
			return err
		}
		return errChanged
	case v.unfinished():
		err := d.store.release(ctx, name, v.record.Over)
		if isChanged(err) { // it is not that claim's
			return heldByUnknown(name, v)
		}
		if err != nil {
			return err
		}
		return errChanged
	case v.locked():
		return &abstractions.HeldError{Holder: v.shown(name)}
	case v.reserved() > 0:
		return &abstractions.HeldError{Holder: v.shown(name), RetryAfter: v.reserved()}
	case v.now.IsZero(): // what would the token be
		return errNoClock
	}
	return nil
}

// unfinished reports whether a claim is over and a lease is there: its own, unless
// another program has taken one since.
func (v view) unfinished() bool { return v.locked() && v.record.ID == "" && v.record.Over != "" }

// reserved is how long a free name is still reserved for whoever has written its
// claim and not taken the lease yet. An expired lease was taken.
func (v view) reserved() time.Duration {
	r := v.record
	if v.lease != lease.StateTypeAvailable || r.ID == "" || r.Breaking || v.now.IsZero() {
		return 0
	}
	left := time.Unix(r.Since, 0).Add(reservation).Sub(v.now)
	if left > 2*reservation { // the service's clocks don't differ by so much
		return 0
	}
	return min(left, reservation)
}

var errNoClock = fmt.Errorf("%w: the service's answer has no Date", abstractions.ErrThrottled)

func heldByUnknown(name string, v view) error {
	record := v.shown(name)
	record.Held, record.Unconfirmed = true, true
	return &abstractions.HeldError{Holder: record}
}
