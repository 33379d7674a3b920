package bloblease

import (
	"context"
	"fmt"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/bloberror"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
)

// acquire looks, writes its claim into the record, and takes the lease if the
// record is still its own: see the package documentation for why in this order.
func (p *Provider) acquire(ctx context.Context, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	var v view
	for range attempts {
		var err error
		if v, err = p.look(ctx, req.Name); err != nil {
			return abstractions.Grant{}, err
		}
		v, err = p.claim(ctx, v, req)
		if err == nil {
			err = p.store.acquire(ctx, req.Name, req.ID, v.record.Seconds, v.etag)
		}
		switch {
		case err == nil:
			return granted(req.Name, req.ID, req.TTL, v), nil
		case hasCode(err, bloberror.LeaseAlreadyPresent):
			// The record is ours and the lease is not: another program's, or one
			// that the service has not freed yet although it shows it as expired.
			return abstractions.Grant{}, heldByUnknown(req.Name, v)
		case !isMoved(err):
			return abstractions.Grant{}, err
		}
	}
	return abstractions.Grant{}, heldByUnknown(req.Name, v)
}

// look is head, where a container that is not there is created, or is as good as
// an empty one, if the options say so.
func (p *Provider) look(ctx context.Context, name string) (view, error) {
	v, err := p.store.head(ctx, name)
	if homeless, ok := isHomeless(err); ok && p.createContainer && homeless.meaning != deleting {
		return view{homeless: true, now: dateOf(err)}, nil
	}
	return v, err
}

// claim writes the record of a claim, or finds it written. It returns ErrHeld,
// ErrReleased, or a conflict.
func (p *Provider) claim(ctx context.Context, v view, req abstractions.AcquireRequest) (view, error) {
	switch over, _ := v.record.over(req.ID); {
	case over || v.record.ID == req.ID && v.isBroken():
		return v, fmt.Errorf("%w: the ID has been given up, or was broken", abstractions.ErrReleased)
	case v.found && v.record.ID == req.ID:
		return p.claimAgain(ctx, v, seconds(req.TTL), req.Name)
	case v.locked():
		return v, p.evict(ctx, v, req.Name)
	}
	if left := v.reserved(); left > 0 {
		return v, &abstractions.HeldError{Holder: abstractions.Record{Name: req.Name, Token: v.record.Token, Now: v.now}, RetryAfter: left}
	}
	if v.now.IsZero() { // what would the token be
		return v, errNoClock
	}
	next := v.record.claim(req, p.tokens.instant(v.now, time.Now()), v.isBroken())
	p.tokens.given(next.Token, v.now)
	if v.exists {
		return p.store.write(ctx, req.Name, v, next, "")
	}
	if v.homeless {
		if err := p.store.createContainer(ctx); err != nil {
			return v, err
		}
	}
	return p.store.create(ctx, req.Name, next)
}

// claimAgain is for a claim that is written already. It never shortens the lease,
// and the record always has the duration that is asked for next, so that no copy
// of a request that was delayed can: see renew.go.
func (p *Provider) claimAgain(ctx context.Context, v view, duration int32, name string) (view, error) {
	duration = longer(duration, v.record.Seconds)
	if duration == v.record.Seconds {
		return v, nil
	}
	return p.setDuration(ctx, v, duration, name)
}

func (p *Provider) setDuration(ctx context.Context, v view, duration int32, name string) (view, error) {
	next := v.record
	next.Seconds = duration
	return p.store.write(ctx, name, v, next, v.holder())
}

// holder is the ID under whose lease the record is written.
func (v view) holder() string {
	if !v.locked() {
		return ""
	}
	return v.record.ID
}

// evict says that a name is held. A lease whose claim is over was about to be
// released when its process ended, or to be broken: that is done for it, and the
// caller begins again.
func (p *Provider) evict(ctx context.Context, v view, name string) error {
	if v.halfBroken() {
		if err := p.finishBreak(ctx, v, name); err != nil {
			return err
		}
		return errMoved
	}
	if !v.unfinished() {
		return &abstractions.HeldError{Holder: v.shown(name)}
	}
	err := p.store.release(ctx, name, v.record.ID)
	if isMoved(err) { // it is not that claim's
		return heldByUnknown(name, v)
	}
	if err != nil {
		return err
	}
	return errMoved
}

// unfinished reports whether the claim is over and the lease is not.
func (v view) unfinished() bool {
	return v.locked() && v.found && (v.record.Phase == released || v.record.Phase == broken)
}

// reserved is how long a free name is still reserved for whoever has written its
// claim and not taken the lease yet. An expired lease was taken.
func (v view) reserved() time.Duration {
	r := v.record
	if v.lease != lease.StateTypeAvailable || r.ID == "" || r.Phase != claimed || v.now.IsZero() {
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
