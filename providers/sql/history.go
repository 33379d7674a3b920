package sqllease

import (
	"context"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// recording says what goes into the history table, and for how long.
type recording struct {
	changes, renewals bool
	retention         time.Duration // 0 for ever
}

// trim is how many of the oldest entries a request that writes up to n new ones
// looks at, to delete those that are too old: mostly none. On average it is more
// than n, so that the history does not outgrow its retention, whoever writes it.
func (r recording) trim(n int, random func(int) int) int {
	if !r.changes || r.retention == 0 || random(sweepEvery) >= n {
		return 0
	}
	return max(sweepBatch, 2*n)
}

// History returns a page of what happened to a name. The history of a name outlives
// its row.
func (d *driver) History(ctx context.Context, req abstractions.HistoryRequest) (page abstractions.HistoryResult, err error) {
	var after, last int64
	if req.After != "" {
		if after, err = strconv.ParseInt(req.After, 10, 64); err != nil {
			return page, &abstractions.InvalidError{Field: "After", Value: req.After, Want: "Next of the page before"}
		}
	}
	if err := d.check(ctx); err != nil {
		return page, err
	}
	limit := req.PageLimit()
	err = d.backend.query(ctx, d.tables.history, []any{req.Name, after, limit + 1}, func(scan scan) error {
		if len(page.Entries) == limit { // there is one more
			page.Next = strconv.FormatInt(last, 10)
			return nil
		}
		var e abstractions.HistoryEntry
		var at int64
		err := scan(&last, &at, (*string)(&e.Kind), &e.ID, &e.Owner, &e.Token, &e.Actor, &e.Reason)
		e.Time = time.UnixMicro(at).UTC()
		page.Entries = append(page.Entries, e)
		return err
	})
	return page, err
}
