package sqllease

import (
	"context"
	"math"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
)

// historian is a driver that keeps a history.
type historian struct{ *driver }

// History returns a page of a name's history, which outlives the row of the
// name.
func (d historian) History(ctx context.Context, req abstractions.HistoryRequest) (page abstractions.HistoryResult, err error) {
	statement, after, last := d.SQL["history"], int64(0), int64(0)
	if req.NewestFirst {
		statement, after = d.SQL["newest"], math.MaxInt64
	}
	if req.After != "" {
		if after, err = strconv.ParseInt(req.After, 10, 64); err != nil {
			return page, &abstractions.InvalidError{Field: "After", Value: req.After, Want: "Next of the page before"}
		}
	}
	if err := d.check(ctx); err != nil {
		return page, err
	}
	limit := req.PageLimit()
	err = d.backend.Query(ctx, statement, []any{req.Name, after, limit + 1}, func(scan dialect.Scan) error {
		if len(page.Entries) == limit { // there are more entries
			page.Next = strconv.FormatInt(last, 10)
			return nil
		}
		var e abstractions.HistoryEntry
		var at int64
		var claim string
		err := scan(&last, &at, (*string)(&e.Kind), &claim, &e.Owner, &e.Token, &e.Actor, &e.Reason)
		e.Time, e.Fingerprint = time.UnixMicro(at).UTC(), fingerprintIn(claim)
		page.Entries = append(page.Entries, e)
		return err
	})
	return page, err
}

// fingerprintIn reads the column id of the history. Rows of version 0.1.0 have the ID
// itself, which is never in the form of a fingerprint.
func fingerprintIn(column string) (f abstractions.Fingerprint) {
	if f.UnmarshalText([]byte(column)) != nil {
		return abstractions.FingerprintOf(column)
	}
	return f
}

// WriteHistory appends entries from another source to the history: see package
// leasing/history. The provider needs Options.History. No manager should use the
// provider, since a name's entries keep the order in which they were written.
func (p *Provider) WriteHistory(ctx context.Context, entries []abstractions.NamedEntry) error {
	if !p.driver.Record.Changes {
		return providerkit.BadOption("History", false, "true: this provider keeps no history")
	}
	entries = append([]abstractions.NamedEntry{}, entries...) // the request may outlive its caller
	return providerkit.Call(ctx, p.shell, "write history", "", func(ctx context.Context) error {
		if err := p.driver.check(ctx); err != nil {
			return err
		}
		err := p.driver.backend.WriteHistory(ctx, entries)
		if err == nil {
			p.driver.trimSome(ctx, len(entries))
		}
		return err
	})
}
