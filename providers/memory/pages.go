package memlease

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// List returns a page of records. Names that were never held are not listed.
// Records are in the order of the shards, and of the names within a shard, so that
// List sorts only a part of the names for each page.
func (m *memory) List(_ context.Context, req abstractions.ListRequest) (abstractions.ListResult, error) {
	position, after, err := parsePosition(req.After)
	if err != nil {
		return abstractions.ListResult{}, err
	}
	var page abstractions.ListResult
	for ; position < shards; position, after = position+1, "" {
		s := &m.shards[position]
		for _, name := range s.names(req.Prefix, after) {
			if len(page.Records) == req.PageLimit() {
				page.Next = fmt.Sprintf("%d:%s", position, after)
				return page, nil
			}
			after = name
			if shown, ok := m.show(s, name); ok && (shown.Held || !req.HeldOnly) {
				page.Records = append(page.Records, shown)
			}
		}
	}
	return page, nil
}

// parsePosition reads ListResult.Next: a shard's number, a colon, and the last name of
// that shard on the previous page, which may be "".
func parsePosition(next string) (position int, after string, err error) {
	if next == "" {
		return 0, "", nil
	}
	number, after, found := strings.Cut(next, ":")
	position, err = strconv.Atoi(number)
	if !found || err != nil || position < 0 || position >= shards {
		return 0, "", &abstractions.InvalidError{Field: "After", Value: next, Want: "Next of the page before"}
	}
	return position, after, nil
}

// names returns the shard's names that begin with prefix and follow after,
// in order.
func (s *shard) names(prefix, after string) []string {
	var names []string
	s.Lock()
	for name, r := range s.records {
		if name > after && r.Token > 0 && strings.HasPrefix(name, prefix) {
			names = append(names, name)
		}
	}
	s.Unlock()
	slices.Sort(names)
	return names
}

// history has the latest changes to a name.
type history struct {
	entries []abstractions.HistoryEntry
	dropped int // how many older entries were dropped, and so the number of entries[0]
}

// note keeps an entry, unless it is empty or an unwanted renewal.
func (m *memory) note(r *record, entry *providerkit.Note) {
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
	h.entries = append(h.entries, entry.Entry())
}

// historian is a driver that keeps history.
type historian struct{ *memory }

// History returns a page of a name's history.
func (m historian) History(_ context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	after := 0
	if req.NewestFirst {
		after = math.MaxInt
	}
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
	return r.history.page(after, req), nil
}

// page returns the entries from number after on or, if the newest come first, the entries before number after.
func (h *history) page(after int, req abstractions.HistoryRequest) (page abstractions.HistoryResult) {
	from := h.index(after)
	to := min(from+req.PageLimit(), len(h.entries))
	next, more := to, to < len(h.entries)
	if req.NewestFirst {
		from, to = max(from-req.PageLimit(), 0), from
		next, more = from, from > 0
	}
	page.Entries = slices.Clone(h.entries[from:to])
	if req.NewestFirst {
		slices.Reverse(page.Entries)
	}
	if more {
		page.Next = strconv.Itoa(h.dropped + next)
	}
	return page
}

// index returns the index of the entry with a number, or of the nearest kept entry.
func (h *history) index(number int) int { return min(max(number-h.dropped, 0), len(h.entries)) }
