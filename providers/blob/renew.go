package bloblease

import (
	"context"
	"fmt"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing/abstractions"
)

// renew is one request: the service's own renewal, which begins the lease's
// duration anew. That is enough if the duration covers the TTL, and the duration
// is what the record in the grant's state says, or more:
//
//   - Before a lease gets another duration the record says so. So a copy of an
//     earlier acquire that was delayed meets another ETag and is refused.
//   - A finite duration is never made shorter: a renewal with a shorter TTL leaves
//     it as it is, and the holder trusts the shorter one.
//   - A lease that was infinite gets the longest finite duration. One that may be,
//     because a call that was to make it so has an unknown outcome, is looked at
//     before it is renewed as a finite one: it would outlive its holder for ever.
//
// An infinite lease is renewed only if the record is the one in the state, so that no
// state which has become old lets a holder take a finite lease for an infinite one.
// It is not acquired again, which would bring one back that was broken.
func (p *Provider) renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	s, need := stateOf(req.State, req.Name, req.ID, req.Token), seconds(req.TTL)
	if s == nil || !s.renewable(need) {
		return p.renewAfterLook(ctx, req, need)
	}
	var unchanged *azcore.ETag
	if need == infinite {
		unchanged = &s.view.etag
	}
	err := p.store.renew(ctx, req.Name, req.ID, unchanged)
	if err == nil {
		return abstractions.Grant{Name: req.Name, ID: req.ID, Token: req.Token, TTL: req.TTL, State: s}, nil
	}
	if _, homeless := isHomeless(err); homeless || isMoved(err) {
		return p.renewAfterLook(ctx, req, need)
	}
	return abstractions.Grant{}, err
}

// renewable reports whether the service's renewal does for the time that is needed.
// It notes that the lease is about to become infinite.
func (s *state) renewable(need int32) bool {
	duration := s.view.record.Seconds
	if need == infinite && duration != infinite {
		s.endless.Store(true)
	}
	return covers(duration, need) && (need == infinite || !s.endless.Load())
}

// covers reports whether a renewal of a lease with that duration is one for the
// time that is needed.
func covers(duration, need int32) bool {
	if duration == infinite || need == infinite {
		return duration == need
	}
	return duration >= need
}

// renewAfterLook finds out what has become of the claim. What it says of a loss is
// certain. A lease that has run out is taken again: its record is still the
// claim's, so nobody has owned the name since.
func (p *Provider) renewAfterLook(ctx context.Context, req abstractions.RenewRequest, need int32) (abstractions.Grant, error) {
	for range attempts {
		v, err := p.store.head(ctx, req.Name)
		if homeless, ok := isHomeless(err); ok { // so are all leases
			return abstractions.Grant{}, &abstractions.LostError{Reason: abstractions.LostGone, Err: homeless.statusError}
		}
		if err != nil {
			return abstractions.Grant{}, err
		}
		if reason := v.loss(req.ID, req.Token); reason != "" {
			if v.record.ID == req.ID {
				err = p.finishBreak(ctx, v, req.Name)
			}
			if err == nil {
				return abstractions.Grant{}, &abstractions.LostError{Reason: reason}
			}
		} else {
			v, err = p.renewOne(ctx, v, req, need)
		}
		if err == nil {
			return granted(req.Name, req.ID, req.TTL, v), nil
		}
		if !isMoved(err) {
			return abstractions.Grant{}, err
		}
	}
	return abstractions.Grant{}, fmt.Errorf("%w: %w", abstractions.ErrUnavailable, errContended)
}

// renewOne gives a claim that lives another duration, if it needs one, and makes it
// last. A finite lease may have a shorter duration than its record says, if the
// call that changed it ended half way, so it is acquired anew.
func (p *Provider) renewOne(ctx context.Context, v view, req abstractions.RenewRequest, need int32) (view, error) {
	if duration := nextDuration(v.record.Seconds, need); duration != v.record.Seconds {
		var err error
		if v, err = p.setDuration(ctx, v, duration, req.Name); err != nil {
			return v, err
		}
	} else if duration == infinite && v.endless {
		return v, p.store.renew(ctx, req.Name, req.ID, &v.etag)
	}
	return v, p.store.acquire(ctx, req.Name, req.ID, v.record.Seconds, v.etag)
}

// nextDuration is what a lease with one duration gets where another is needed.
func nextDuration(duration, need int32) int32 {
	if duration == infinite && need != infinite {
		return seconds(maxTTL)
	}
	return longer(duration, need)
}

// loss says how a claim has ended, or nothing if it has not.
func (v view) loss(id string, token int64) abstractions.LostReason {
	over, wasBroken := v.record.over(id)
	switch {
	case wasBroken:
		return abstractions.LostBroken
	case over || !v.exists || !v.found:
		return abstractions.LostGone
	case v.record.ID == id && v.isBroken():
		return abstractions.LostBroken
	case v.record.ID == id && (token == 0 || v.record.Token == token):
		return ""
	case v.record.ID == "":
		return abstractions.LostGone
	}
	return abstractions.LostTaken
}
