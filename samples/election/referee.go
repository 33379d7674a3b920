//go:build unix

package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// referee decides, from what the workers reported and what the ledger holds,
// whether the promises were kept.
type referee struct {
	terms map[int64]*term // by token
	wrote map[int64]row   // by number: what the workers say the ledger has accepted
	late  []string        // writes after a loss that the ledger has accepted
}

// term is one worker's time as the leader.
type term struct {
	worker       string
	token        int64
	elected      time.Duration
	trustedUntil time.Duration // as far as it has reported
	over         time.Duration // when it had ended its work or was killed; 0 before
}

func newReferee() *referee {
	return &referee{terms: map[int64]*term{}, wrote: map[int64]row{}}
}

// see takes a report in.
func (f *referee) see(r report) {
	t := f.terms[r.Token]
	if r.Kind == elected {
		t = &term{worker: r.Worker, token: r.Token, elected: r.At}
		f.terms[r.Token] = t
	}
	if t == nil {
		return
	}
	switch r.Kind {
	case wrote:
		f.wrote[r.Row] = row{number: r.Row, token: r.Token, writer: r.Worker}
	case late:
		f.late = append(f.late, fmt.Sprintf("%s, token %d, row %d", r.Worker, r.Token, r.Row))
	case stopping, resigned:
		t.end(r.At)
	}
	if r.Trust > 0 {
		t.trustedUntil = max(t.trustedUntil, r.trustedUntil())
	}
}

// killed notes that a leader was killed.
func (f *referee) killed(token int64, at time.Duration) { f.terms[token].end(at) }

func (t *term) end(at time.Duration) {
	if t.over == 0 {
		t.over = at
	}
}

// trustEnds is when the leader no longer trusted its lease for certain.
func (t *term) trustEnds() time.Duration {
	if t.over != 0 {
		return min(t.over, t.trustedUntil)
	}
	return t.trustedUntil
}

// trustApart checks that no two leaders trusted their lease at the same time,
// and returns how close the closest came.
func (f *referee) trustApart() (closest time.Duration, err error) {
	terms := slices.SortedFunc(maps.Values(f.terms), func(a, b *term) int { return cmp.Compare(a.token, b.token) })
	for i := 1; i < len(terms); i++ {
		before, after := terms[i-1], terms[i]
		apart := after.elected - before.trustEnds()
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
// token it bears, the tokens never fall, and no row that was reported is missing.
func (f *referee) ledgerHolds(rows []row) error {
	if len(f.late) > 0 {
		return fmt.Errorf("a write was accepted after its lease was lost: %v", f.late)
	}
	last := int64(0)
	for _, r := range rows {
		t := f.terms[r.token]
		if t == nil || t.worker != r.writer {
			return fmt.Errorf("row %d: %s did not lead with token %d", r.number, r.writer, r.token)
		}
		if r.token < last {
			return fmt.Errorf("row %d: a stale write was accepted: token %d after %d", r.number, r.token, last)
		}
		last = r.token
	}
	for number, want := range f.wrote {
		if int(number) > len(rows) || rows[number-1] != want {
			return fmt.Errorf("row %d, which %s reported as written, is not in the ledger", number, want.writer)
		}
	}
	return nil
}
