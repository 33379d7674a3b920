package cosmoslease

import (
	"context"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

func (p *Provider) breakLease(ctx context.Context, t *items, req abstractions.BreakRequest) (abstractions.BreakResult, error) {
	var result abstractions.BreakResult
	var meant int64
	_, err := t.rewrite(ctx, req.Name, nil, func(s snapshot, _ meaning) (next *document, verdict error) {
		if req.IfToken == 0 {
			if err := aim(s, &meant); err != nil {
				return nil, err
			}
		}
		next, result, verdict = p.broken(s, req)
		return next, verdict
	})
	if err != nil {
		return abstractions.BreakResult{}, err
	}
	return result, nil
}

// aim takes down which lease is meant, the first that is seen, so that a break does
// not go on to the next one when that ends by itself. Nor does it say that it is
// through: the first read may have been from a replica that lags, and the lease that
// it then met the one that was there all the time.
func aim(s snapshot, meant *int64) error {
	switch {
	case s.doc == nil || s.doc.Holder == nil:
		return nil
	case *meant == 0:
		*meant = s.doc.Token
	case *meant != s.doc.Token:
		return fmt.Errorf("%w: the lease with token %d has ended, and one with token %d was met in its place, which is left alone: look again",
			abstractions.ErrUnavailable, *meant, s.doc.Token)
	}
	return nil
}

// broken is what becomes of a document. Something is always written, but where a later
// token says that the lease that is meant has ended: tokens only rise.
func (p *Provider) broken(s snapshot, req abstractions.BreakRequest) (*document, abstractions.BreakResult, error) {
	var result abstractions.BreakResult
	if s.doc != nil {
		result.Token = s.doc.Token
	}
	next := s.unchanged(req.Name)
	if req.IfToken != 0 && req.IfToken != result.Token {
		if result.Token > req.IfToken {
			next = nil
		}
		return next, result, fmt.Errorf("%w: the latest is %d", abstractions.ErrStale, result.Token)
	}
	h := next.Holder
	if h == nil {
		return next, result, nil
	}
	if p.expiry.over(s) { // it is not to come to life again
		next.end(broken)
		return next, result, nil
	}
	result.WasHeld = true
	switch {
	case req.Immediate:
		next.end(broken)
	case h.infinite():
		result.Remaining = min(max(req.Grace, time.Millisecond), maxTTL)
		h.TTL, h.Breaking = milliseconds(result.Remaining), true
	default:
		result.Remaining, h.Breaking = p.remaining(s), true
	}
	return next, result, nil
}

// remaining is how long until the name is free.
func (p *Provider) remaining(s snapshot) time.Duration {
	return max(0, p.expiry.free(s).Sub(s.now))
}
