package cosmoslease

import (
	"context"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// acquire makes two requests, a read and a write, or one where the name is held.
func (p *Provider) acquire(ctx context.Context, t *items, req abstractions.AcquireRequest) (abstractions.Grant, error) {
	s, err := t.rewrite(ctx, req.Name, nil, func(s snapshot, _ meaning) (*document, error) { return p.acquired(s, req) })
	if err != nil {
		return abstractions.Grant{}, err
	}
	p.watch.forget(req.Name)
	return grantOf(s, req.TTL), nil
}

// acquired is what becomes of a document.
func (p *Provider) acquired(s snapshot, req abstractions.AcquireRequest) (*document, error) {
	if s.doc == nil {
		return p.take(&document{Version: formatVersion, Name: req.Name}, s, req), nil
	}
	if _, ended := s.doc.ended(req.ID); ended {
		return nil, errEnded
	}
	h := s.doc.Holder
	switch {
	case h == nil:
		return p.take(s.doc.clone(), s, req), nil
	case h.ID == req.ID && h.Breaking:
		return nil, errEnded
	case h.ID == req.ID && !p.expiry.over(s):
		return p.again(s, req), nil
	}
	left, watched := p.watch.observe(s)
	if watched || p.expiry.over(s) {
		return p.take(s.doc.clone(), s, req), nil
	}
	return nil, &abstractions.HeldError{Holder: p.expiry.record(req.Name, s), RetryAfter: left}
}

var errEnded = fmt.Errorf("%w, or broken: this ID can't hold the name any more", abstractions.ErrReleased)

// take gives the name to a new holder. One that was to be broken stays refused.
func (p *Provider) take(next *document, s snapshot, req abstractions.AcquireRequest) *document {
	if h := next.Holder; h != nil && h.Breaking {
		next.end(broken)
	}
	next.Token = p.tokens.next(next.Token, s.now, time.Now())
	next.Holder = newHolder(req, s.now)
	return next
}

// again grants TTL anew to the claim that holds the name, and never shortens what
// it has: the document says the longer of the two. It is written also where nothing
// changes. The read may come from a replica that lags, and the claim have been broken
// since: only the write shows that it lives.
func (p *Provider) again(s snapshot, req abstractions.AcquireRequest) *document {
	h := s.doc.Holder
	next := s.doc.clone()
	if h.infinite() {
		return next
	}
	left := s.ends().Sub(s.now)
	ttl := max(req.TTL, min(h.ttl(), left+p.expiry.grace()))
	next.Holder.TTL, next.Holder.Ends = milliseconds(ttl), 0
	return next
}

// grantOf is the grant of whoever holds the name now.
func grantOf(s snapshot, ttl time.Duration) abstractions.Grant {
	return abstractions.Grant{Name: s.doc.Name, ID: s.doc.Holder.ID, Token: s.doc.Token, TTL: ttl, State: &s}
}

// stateOf is what a grant's State remembers of the document; nil if it is no
// grant's of that claim.
func stateOf(state any, name, id string) *snapshot {
	s, ok := state.(*snapshot)
	if !ok || s == nil || s.doc == nil || s.doc.Name != name || s.doc.Holder == nil || s.doc.Holder.ID != id {
		return nil
	}
	return s
}
