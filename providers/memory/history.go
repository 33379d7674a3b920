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

// note keeps an entry, if it is one.
func (m *memory) note(r *record, entry *abstractions.HistoryEntry) {
	if entry.Kind == "" || entry.Kind == abstractions.HistoryRenewed && !m.options.HistoryRenewals {
		return
	}
	if r.history == nil {
		r.history = new(history)
	}
	h := r.history
	if excess := len(h.entries) + 1 - m.options.History; excess > 0 {
		h.entries = append(h.entries[:0], h.entries[excess:]...)
		h.dropped += excess
	}
	h.entries = append(h.entries, *entry)
}

// historian is a memory that keeps history.
type historian struct{ *memory }

// History returns a page of what happened to a name.
func (m historian) History(_ context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	after := 0
	if req.After != "" {
		var err error
		if after, err = strconv.Atoi(req.After); err != nil {
			return abstractions.HistoryResult{}, &abstractions.InvalidError{Field: "After", Value: req.After, Want: "Next of the page before"}
		}
	}
	s := m.shardOf(req.Name)
	s.Lock()
	defer s.Unlock()
	r := s.records[req.Name]
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
