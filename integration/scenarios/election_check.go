package main

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/integration/scenarios/place"
	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

// checker decides, from the workers' reports and the rows of the ledger, whether the promises were
// kept. It maps tokens to terms.
type checker map[int64]*term

// term is one worker's time as the leader.
type term struct {
	worker         string
	elected, trust time.Time // trust: the latest reported end of the trust
	over           time.Time // when it finished its work or was killed; zero until then
}

// see records a report.
func (f checker) see(r runner.Report) {
	if r.Kind == elected {
		f[r.Token] = &term{worker: r.Worker, elected: r.At}
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

// end records that a leader has stopped, or was killed.
func (f checker) end(token int64, at time.Time) {
	if t := f[token]; t.over.IsZero() || at.Before(t.over) {
		t.over = at
	}
}

// trustEnds returns a time after which the leader no longer trusted its lease.
func (t *term) trustEnds() time.Time {
	if !t.over.IsZero() && t.over.Before(t.trust) {
		return t.over
	}
	return t.trust
}

// minTrustGap checks that no two leaders trusted their lease at the same time, and returns the
// shortest gap between the end of one leader's trust and the next election.
func (f checker) minTrustGap() (closest time.Duration, err error) {
	tokens := slices.Sorted(maps.Keys(f))
	for i := 1; i < len(tokens); i++ {
		before, after := f[tokens[i-1]], f[tokens[i]]
		apart := after.elected.Sub(before.trustEnds())
		if apart < 0 {
			return apart, fmt.Errorf("%s (token %d) still trusted its lease %v after %s was elected with token %d",
				before.worker, tokens[i-1], -apart, after.worker, tokens[i])
		}
		if i == 1 || apart < closest {
			closest = apart
		}
	}
	return closest, nil
}

// ledgerHolds checks that each row of the ledger was written by the leader whose token it has, and that the tokens never fall. It
// returns the number of rows.
func (f checker) ledgerHolds(ctx context.Context, data *place.Data) (count int, err error) {
	last := int64(0)
	err = place.Each(ctx, data.DB, "SELECT token, writer FROM ledger ORDER BY number", func(row *sql.Rows) error {
		var token int64
		var writer string
		if err := row.Scan(&token, &writer); err != nil {
			return err
		}
		count++
		if t := f[token]; t == nil || t.worker != writer {
			return fmt.Errorf("row %d: %s did not lead with token %d", count, writer, token)
		}
		if token < last {
			return fmt.Errorf("row %d: a stale write was accepted: token %d after %d", count, token, last)
		}
		last = token
		return nil
	})
	return count, err
}
