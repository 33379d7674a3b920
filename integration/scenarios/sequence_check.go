package main

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"

	"github.com/distributedleasing/leasing/integration/scenarios/place"
	"github.com/distributedleasing/leasing/sequence"
)

// ends maps each trouble to the state in which its number has to end.
var ends = map[string]sequence.State{
	killedEmpty: sequence.Sealed, killedHalf: sequence.Recovered, killedDone: sequence.Recovered,
	pausedToGap: sequence.Filled, pausedToSeal: sequence.Sealed, pausedToOther: sequence.Recovered, cutOff: sequence.Filled,
}

// check checks that the promises were kept.
func (s *sequenceShow) check(ctx context.Context) error {
	var entries []sequence.Entry
	for e, err := range (sequence.Reader{Records: s.store, Stream: stream, Sealed: true}).Read(ctx, 1) {
		if err != nil {
			return err
		}
		entries = append(entries, e)
	}
	queue, err := s.store.Manual(ctx, stream, 10)
	if err != nil {
		return err
	}
	s.table(entries, queue)
	for _, check := range []func() error{
		func() error { return s.checkAccounts(entries) },
		func() error { return s.noLateCommits(ctx, entries) },
		func() error { return s.readersAgree(entries) },
	} {
		if err := check(); err != nil {
			return err
		}
	}
	if len(queue) != 1 || queue[0].Seq != s.numbers[pausedToSeal] {
		return fmt.Errorf("in the manual queue are %v, and not number %d", queue, s.numbers[pausedToSeal])
	}
	s.OK("the manual queue has the result of number %d, for a person to decide about: %q", queue[0].Seq, queue[0].Payload)
	return nil
}

// table prints the outcome of each lease that has run out.
func (s *sequenceShow) table(entries []sequence.Entry, queue []sequence.ManualItem) {
	happened := map[int64]string{}
	for trouble, seq := range s.numbers {
		happened[seq] = trouble
	}
	rows := [][]any{{"number", "transfer", "its writer was", "the number is", "its work is"}}
	for _, e := range entries {
		if e.Reason != sequence.ReasonExpired && e.State != sequence.Recovered {
			continue
		}
		is, where := string(e.State), "lost: it was never saved"
		switch e.State {
		case sequence.Recovered:
			where = fmt.Sprintf("committed as number %d", e.ReplacedBy)
		case sequence.Filled:
			is, where = "a gap that was filled", "committed, late"
		case sequence.Sealed:
			is = "a gap, sealed"
		}
		if slices.ContainsFunc(queue, func(i sequence.ManualItem) bool { return i.Seq == e.Seq }) {
			where = "in the manual queue"
		}
		what, known := happened[e.Seq]
		if !known {
			what = "too slow"
		}
		rows = append(rows, []any{e.Seq, e.Op, what, is, where})
	}
	s.Table(rows...)
}

// checkAccounts checks that every number has a record, and that the numbers of writers in trouble have ended as expected.
func (s *sequenceShow) checkAccounts(entries []sequence.Entry) error {
	states := map[sequence.State]int{}
	for i, e := range entries {
		if e.Seq != int64(i+1) || e.State == sequence.Gap || e.State.Open() {
			return fmt.Errorf("the record of number %d is that of %d, which is %s", i+1, e.Seq, e.State)
		}
		states[e.State]++
		if e.State == sequence.Recovered && entries[e.ReplacedBy-1].Origin != e.Seq {
			return fmt.Errorf("number %d was recovered as %d, whose origin is %d", e.Seq, e.ReplacedBy, entries[e.ReplacedBy-1].Origin)
		}
	}
	if s.sealed != int64(len(entries)) || len(s.numbers) != len(ends) {
		return fmt.Errorf("there are %d records of %d numbers, and trouble came on %d of %d", len(entries), s.sealed, len(s.numbers), len(ends))
	}
	for trouble, want := range ends {
		if is := entries[s.numbers[trouble]-1].State; is != want {
			return fmt.Errorf("number %d (%s) is %s, and not %s", s.numbers[trouble], trouble, is, want)
		}
	}
	s.OK("each of %d numbers is accounted for: %d committed, %d recovered as later ones, %d gaps that were filled, %d sealed",
		len(entries), states[sequence.Committed], states[sequence.Recovered], states[sequence.Filled], states[sequence.Sealed])
	return nil
}

// noLateCommits checks that the ledger has a row for each result and no other rows, and that every late commit was refused.
func (s *sequenceShow) noLateCommits(ctx context.Context, entries []sequence.Entry) error {
	want := map[int64]string{}
	for _, e := range entries {
		if e.State == sequence.Committed || e.State == sequence.Filled {
			want[e.Seq] = e.Op + ": " + string(e.Payload)
		}
	}
	rows := map[int64]string{}
	if err := place.Each(ctx, s.Data.DB, "SELECT seq, op, entry FROM transfers", func(row *sql.Rows) error {
		var seq int64
		var op, entry string
		err := row.Scan(&seq, &op, &entry)
		rows[seq] = op + ": " + entry
		return err
	}); err != nil {
		return err
	}
	if !maps.Equal(rows, want) {
		return fmt.Errorf("the ledger has %v, and its numbers are %v", rows, want)
	}
	for _, trouble := range []string{pausedToGap, pausedToSeal, pausedToOther} {
		if seq := s.numbers[trouble]; s.refused[seq] != 1 {
			return fmt.Errorf("late commits of number %d (%s) that were refused: %d, and not 1", seq, trouble, s.refused[seq])
		}
	}
	s.OK("no late commit got in: %d were refused, and the ledger has the %d results and nothing else", len(s.refused), len(rows))
	return nil
}

// readersAgree checks that all readers have seen the final entries.
func (s *sequenceShow) readersAgree(entries []sequence.Entry) error {
	var want []string
	for _, e := range entries {
		want = append(want, describe(e))
	}
	for i := range s.readers {
		if !slices.Equal(s.readers[i].entries, want) {
			return fmt.Errorf("reader %d has seen %v, and in the end it is %v", i+1, s.readers[i].entries, want)
		}
	}
	s.OK("%d readers followed, and saw the same %d entries in the same order", len(s.readers), len(want))
	return nil
}
