package cosmoslease

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

// renew makes one request: a replacement of the version that the claim has written
// last. If it succeeds nobody else has written since, so that even a claim that had
// run out had no successor: it lives on.
func (p *Provider) renew(ctx context.Context, t *items, req abstractions.RenewRequest) (abstractions.Grant, error) {
	known := stateOf(req.State, req.Name, req.ID)
	if known != nil && known.doc.Token != req.Token {
		known = nil
	}
	s, err := t.rewrite(ctx, req.Name, known, func(s snapshot, before meaning) (*document, error) {
		if s.doc == nil && before == conflict {
			return nil, fmt.Errorf("%w: a read does not show the document that a write has met", abstractions.ErrUnavailable)
		}
		if s.doc == nil && before == missing {
			return nil, &abstractions.LostError{Reason: abstractions.LostGone}
		}
		return renewed(s, req)
	})
	if err != nil {
		return abstractions.Grant{}, err
	}
	return grantOf(s, req.TTL), nil
}

// renewed is what becomes of a document, or how the claim was lost. What a read shows
// of a time before the claim was made is what a replica that lags has, or what is left
// after the document was deleted: that it can be written shows which.
func renewed(s snapshot, req abstractions.RenewRequest) (*document, error) {
	if s.doc == nil {
		return s.unchanged(req.Name), &abstractions.LostError{Reason: abstractions.LostGone}
	}
	if kind, ended := s.doc.ended(req.ID); ended {
		if kind == broken {
			return nil, &abstractions.LostError{Reason: abstractions.LostBroken}
		}
		return nil, &abstractions.LostError{Reason: abstractions.LostGone}
	}
	h := s.doc.Holder
	switch {
	case s.doc.Token < req.Token:
		return s.unchanged(req.Name), forgotten(h)
	case h == nil:
		return nil, &abstractions.LostError{Reason: abstractions.LostGone}
	case h.ID != req.ID || s.doc.Token != req.Token:
		return nil, &abstractions.LostError{Reason: abstractions.LostTaken}
	case h.Breaking:
		return nil, &abstractions.LostError{Reason: abstractions.LostBroken}
	}
	next := s.doc.clone()
	next.Holder.TTL, next.Holder.Ends = milliseconds(req.TTL), 0
	return next, nil
}

// forgotten is how a claim was lost of which the document knows nothing.
func forgotten(h *holder) error {
	if h != nil {
		return &abstractions.LostError{Reason: abstractions.LostTaken}
	}
	return &abstractions.LostError{Reason: abstractions.LostGone}
}
