package memlease

import (
	"context"
	"strconv"

	"github.com/distributedleasing/leasing/abstractions"
)

// history is the latest changes to a name.
type history struct {
	entries []abstractions.HistoryEntry
	dropped int // how many older ones there were: the number of entries[0]
}

// note records a change of the record as it stands.
func (p *Provider) note(r *record, kind abstractions.HistoryKind, now moment) {
	p.noteAt(r, kind, now.at)
}

// noteExpiry records that the lease ran out, if it did and that is news.
func (p *Provider) noteExpiry(r *record) {
	if r.id != "" && !r.breaking {
		p.noteAt(r, abstractions.HistoryExpired, r.expires)
	}
}

func (p *Provider) noteAt(r *record, kind abstractions.HistoryKind, at instant) {
	if p.options.History == 0 {
		return
	}
	if r.history == nil {
		r.history = new(history)
	}
	h := r.history
	if excess := len(h.entries) + 1 - p.options.History; excess > 0 {
		h.entries = append(h.entries[:0], h.entries[excess:]...)
		h.dropped += excess
	}
	h.entries = append(h.entries, abstractions.HistoryEntry{Time: p.time(at), Kind: kind, ID: r.id, Owner: r.owner, Token: r.token})
}

// History returns a page of what happened to a name: see
// leasing.HistoryReader. It is ErrUnsupported unless Options.History is set.
func (p *Provider) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	if err := p.usable(ctx); err != nil {
		return abstractions.HistoryResult{}, err
	}
	if p.options.History == 0 {
		return abstractions.HistoryResult{}, abstractions.ErrUnsupported
	}
	if err := (abstractions.InspectRequest{Name: req.Name}).Validate(capabilities); err != nil {
		return abstractions.HistoryResult{}, err
	}
	after := 0
	if req.After != "" {
		var err error
		if after, err = strconv.Atoi(req.After); err != nil {
			return abstractions.HistoryResult{}, &abstractions.InvalidError{Field: "After", Value: req.After, Want: "Next of the page before"}
		}
	}
	s := p.shardOf(req.Name)
	s.Lock()
	defer s.Unlock()
	r := s.get(req.Name)
	if r == nil || r.history == nil {
		return abstractions.HistoryResult{}, nil
	}
	return r.history.page(after, req.PageLimit()), nil
}

func (h *history) page(after, limit int) abstractions.HistoryResult {
	from := min(max(after-h.dropped, 0), len(h.entries))
	to := min(from+limit, len(h.entries))
	page := abstractions.HistoryResult{Entries: append([]abstractions.HistoryEntry(nil), h.entries[from:to]...)}
	if to < len(h.entries) {
		page.Next = strconv.Itoa(h.dropped + to)
	}
	return page
}
