package cosmoslease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
)

// release makes one request with the state of a grant, and two without.
//
// An ID that holds nothing is written down too, also in a document that another
// claim holds: an acquire of it that is still on its way either finds it there, or
// has an ETag that is no more. The other holder's end stays where it was, and its
// next renewal reads the new ETag.
func (p *Provider) release(ctx context.Context, t *items, req abstractions.ReleaseRequest) error {
	_, err := t.rewrite(ctx, req.Name, stateOf(req.State, req.Name, req.ID), func(s snapshot, _ meaning) (*document, error) {
		return without(s, req), nil
	})
	if err == nil {
		p.watch.forget(req.Name)
	}
	return err
}

// without is a document in which an ID has ended; nil if it has already.
func without(s snapshot, req abstractions.ReleaseRequest) *document {
	if s.doc == nil {
		next := &document{Version: formatVersion, Name: req.Name}
		next.remember(released, req.ID)
		return next
	}
	if _, ended := s.doc.ended(req.ID); ended {
		return nil
	}
	next := s.doc.clone()
	if h := next.Holder; h != nil && h.ID == req.ID {
		next.end(released)
		return next
	}
	s.keepEnd(next)
	next.remember(released, req.ID)
	return next
}
