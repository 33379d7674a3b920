package bloblease

import (
	"context"
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/lease"
	"github.com/distributedleasing/leasing/abstractions"
)

// state is a grant's own. While the record has the ETag in it, the service's lease
// has the duration that the record says, or has ended:
//
//   - Before a lease gets another duration the record says so, and a request that
//     sets the duration has the ETag of the record that says it. So no copy of an
//     earlier one that was delayed changes it back.
//   - A state is made when the service has set that duration, or renewed it under
//     that ETag.
type state struct {
	name, id string
	view     view
}

func granted(name, id string, ttl time.Duration, v view) abstractions.Grant {
	v.lease = lease.StateTypeLeased
	return abstractions.Grant{Name: name, ID: id, Token: v.record.Token, TTL: ttl, State: &state{name, id, v}}
}

// stateOf is the state in a request, or nil if there is none, or another claim's.
func stateOf(any any, name, id string, token int64) *state {
	s, ok := any.(*state)
	if !ok || s == nil || s.name != name || s.id != id || s.view.record.Token != token {
		return nil
	}
	return s
}

// Renew is one request if nothing changes but the end of the lease: the service's own
// renewal under the record's ETag, which begins the duration anew. It revives a
// lease that has run out if nobody has written the record since, that is, if nobody
// has asked for the name.
func (d *driver) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	s := stateOf(req.State, req.Name, req.ID, req.Token)
	if s != nil && req.Metadata == nil && s.view.record.Seconds == seconds(req.TTL) {
		err := d.store.renew(ctx, req.Name, req.ID, s.view.etag)
		if err == nil {
			return granted(req.Name, req.ID, req.TTL, s.view), nil
		}
		if !isChanged(err) && !isNoContainer(err) {
			return abstractions.Grant{}, err
		}
	}
	wrote := false
	for range attempts {
		v, err := d.store.head(ctx, req.Name)
		if isNoContainer(err) { // its leases are gone as well
			return abstractions.Grant{}, &abstractions.LostError{Reason: abstractions.LostGone, Err: short(err)}
		}
		if err == nil {
			v, err = d.renewOne(ctx, v, req, &wrote)
		}
		if err == nil {
			return granted(req.Name, req.ID, req.TTL, v), nil
		}
		if !isChanged(err) {
			return abstractions.Grant{}, partialIf(wrote && !errors.Is(err, abstractions.ErrLost), err)
		}
	}
	return abstractions.Grant{}, errContended
}

// renewOne writes what changes of a claim that lives, under its lease if it has one,
// and has the lease begin anew. A finite lease may have another duration than its
// record says, if the call that changed it ended half way, so it is acquired
// again. An infinite one is not: that would bring one back that was broken since.
func (d *driver) renewOne(ctx context.Context, v view, req abstractions.RenewRequest, wrote *bool) (view, error) {
	r := v.rules(req.Name, req.ID)
	if c := r.Renew(req); c.Err != nil {
		if v.record.ID == req.ID {
			if err := d.finishBreak(ctx, v, req.Name); err != nil {
				return v, err
			}
		}
		return v, c.Err
	}
	next := v.record.after(r)
	if next.equal(v.record) && next.Seconds == infinite && v.infinite {
		return v, d.store.renew(ctx, req.Name, req.ID, v.etag)
	}
	if !next.equal(v.record) {
		var err error
		if v, err = d.store.write(ctx, req.Name, v, next); err != nil {
			return v, err
		}
		*wrote = true
	}
	return v, d.store.acquire(ctx, req.Name, req.ID, next.Seconds, v.etag)
}
