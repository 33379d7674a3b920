package main

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/samples/internal/place"
	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// checker decides, from what the workers reported and what the ledger holds,
// whether the promises were kept. It has the terms by token.
type checker map[int64]*term

// term is one worker's time as the leader.
type term struct {
	worker         string
	token          int64
	elected, trust time.Time // trust: its end, as far as it was reported
	over           time.Time // when it had ended its work or was killed; zero before
}

// row is a row of the ledger.
type row struct {
	number, token int64
	writer        string
}

// see takes a report in.
func (f checker) see(r runner.Report) {
	if r.Kind == elected {
		f[r.Token] = &term{worker: r.Worker, token: r.Token, elected: r.At}
	}
	t := f[r.Token]
	if t == nil {
		return
	}
	if r.Kind == stopping || r.Kind == resigned {
		f.end(r.Token, r.At)
	}
	if until := r.At.Add(r.Trust); r.Trust > 0 && until.After(t.trust) {
		t.trust = until
	}
}

// end notes that a leader has stopped, or was killed.
func (f checker) end(token int64, at time.Time) {
	if t := f[token]; t.over.IsZero() || at.Before(t.over) {
		t.over = at
	}
}

// trustEnds is when the leader no longer trusted its lease for certain.
func (t *term) trustEnds() time.Time {
	if !t.over.IsZero() && t.over.Before(t.trust) {
		return t.over
	}
	return t.trust
}

// trustApart checks that no two leaders trusted their lease at the same time,
// and returns how close the closest came.
func (f checker) trustApart() (closest time.Duration, err error) {
	terms := slices.SortedFunc(maps.Values(f), func(a, b *term) int { return cmp.Compare(a.token, b.token) })
	for i := 1; i < len(terms); i++ {
		before, after := terms[i-1], terms[i]
		apart := after.elected.Sub(before.trustEnds())
		if apart < 0 {
			return apart, fmt.Errorf("%s (token %d) still trusted its lease %v after %s was elected with token %d",
				before.worker, before.token, -apart, after.worker, after.token)
		}
		if i == 1 || apart < closest {
			closest = apart
		}
	}
	return closest, nil
}

// ledgerHolds checks the ledger: each row was written by the leader whose
// token it bears, and the tokens never fall.
func (f checker) ledgerHolds(rows []row) error {
	last := int64(0)
	for _, r := range rows {
		t := f[r.token]
		if t == nil || t.worker != r.writer {
			return fmt.Errorf("row %d: %s did not lead with token %d", r.number, r.writer, r.token)
		}
		if r.token < last {
			return fmt.Errorf("row %d: a stale write was accepted: token %d after %d", r.number, r.token, last)
		}
		last = r.token
	}
	return nil
}

func ledgerOf(ctx context.Context, data *place.Data) (all []row, err error) {
	err = place.Each(ctx, data.DB, "SELECT number, token, writer FROM ledger ORDER BY number", func(rows *sql.Rows) error {
		var r row
		err := rows.Scan(&r.number, &r.token, &r.writer)
		all = append(all, r)
		return err
	})
	return all, err
}
