package sqllease

import (
	"context"
	"strconv"

	"github.com/distributedleasing/leasing/abstractions"
)

// recording says what goes into the history table.
type recording struct{ changes, renewals bool }

// of returns what to record of an outcome: whether the lease that was found
// had run out, and what was done (kind "": nothing), by which claim.
func (r recording) of(o *outcome) (expired bool, kind, id, owner string) {
	if !r.changes {
		return false, "", "", ""
	}
	id, owner = o.before.id, o.before.owner
	if o.newToken {
		id, owner = o.id, o.owner
	}
	return o.expired(), string(o.note), id, owner
}

// History returns a page of what happened to a name: see
// leasing.HistoryReader. Without Options.History it is leasing.ErrUnsupported.
// The history of a name outlives its row; Sweep deletes both in time.
func (s *Store) History(ctx context.Context, req abstractions.HistoryRequest) (abstractions.HistoryResult, error) {
	var page abstractions.HistoryResult
	err := s.call(ctx, "history", req.Name, func(ctx context.Context) error {
		if !s.record.changes {
			return abstractions.ErrUnsupported
		}
		q := historyQuery{name: req.Name, limit: req.PageLimit() + 1}
		if err := (abstractions.InspectRequest{Name: req.Name}).Validate(s.capabilities); err != nil {
			return err
		}
		if req.After != "" {
			var err error
			if q.after, err = strconv.ParseInt(req.After, 10, 64); err != nil {
				return &abstractions.InvalidError{Field: "After", Value: req.After, Want: "Next of the page before"}
			}
		}
		events, err := s.backend.history(ctx, q)
		if len(events) == q.limit {
			events = events[:len(events)-1]
			page.Next = strconv.FormatInt(events[len(events)-1].seq, 10)
		}
		for _, e := range events {
			page.Entries = append(page.Entries, e.HistoryEntry)
		}
		return err
	})
	return page, err
}
