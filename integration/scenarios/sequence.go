package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/integration/scenarios/place"
	"github.com/distributedleasing/leasing/integration/scenarios/runner"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/sqlsequence"
)

// sequenceScenario shows the fate of the numbers of a ledger while its writers are killed, paused and cut off.
//
// Seven processes write transfers into a ledger, each under the next number of one stream. Six of them run into trouble, once
// each: see troubles. An eighth writer runs in this process. It is cut off from the database, keeps its result in a journal, and
// comes back as a process of its own. All writers give up some of their numbers. A cleaner closes the numbers whose leases have
// run out. Three readers follow the ledger up to its seal.
//
// Look at the table at the end: it shows the outcome of each lease that has run out, and where its work has gone.
var sequenceScenario = runner.Scenario{
	Name: "sequence", About: "a ledger whose writers are killed, paused and cut off (make sequence)", Sample: "sequence",
	TTL: leaseFor, Control: controlSequence,
}

// stream and leaseFor are as in the sample. Each worker's trouble comes at its transfer number troubleAt.
const (
	stream    = "ledger"
	leaseFor  = 3 * time.Second
	troubleAt = 4
)

// The kinds of the parent's own reports. A closed report is about a number that readers can now see, and an away report is
// about the writer that was cut off.
const closed, away = "closed", "is away"

// sequenceShow is one run of the scenario.
type sequenceShow struct {
	*runner.Runner
	store       *sqlsequence.Store[*sql.Tx]
	folder      string           // of journals
	numbers     map[string]int64 // the numbers whose writers ran into trouble, by trouble
	worked      map[string]int   // records after which trouble may come, by worker
	done        map[int64]bool   // numbers whose late result is settled
	refused     map[int64]int    // refused late commits, by number
	cutOffEnded bool             // the writer that was cut off has ended
	cameBack    bool
	sealed      int64
	seen        int64 // the latest number that was closed
	readers     [3]struct {
		entries []string
		at      atomic.Int64
	} // the entries that each reader has read, and its position
}

func controlSequence(ctx context.Context, r *runner.Runner) (err error) {
	s := &sequenceShow{Runner: r, numbers: map[string]int64{}, worked: map[string]int{}, done: map[int64]bool{}, refused: map[int64]int{}}
	if s.folder, err = os.MkdirTemp("", "leasing-journals-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(s.folder)) }()
	if s.store, err = openStore(r.Place, r.Data.DB); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.store.Close()) }()
	if err := s.setUp(ctx); err != nil {
		return err
	}
	cleaner, err := sequence.NewCleaner(s.store, stream, sequence.CleanerOptions[*sql.Tx]{
		Owner: "cleaner", Interval: 100 * time.Millisecond, Write: insert,
		Steps: []sequence.Step{sequence.CommitCompleted(), sequence.FinishPartial(finishTransfer), sequence.MakeGap()},
	})
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	var group sync.WaitGroup
	group.Go(func() { _ = cleaner.Run(running) })
	group.Go(func() { s.watch(running) })
	group.Go(func() { s.writeUntilCutOff(running) })
	for i := range s.readers {
		group.Go(func() { s.read(running, i) })
	}
	err = s.direct(ctx)
	if err == nil {
		err = s.settle(ctx)
	}
	stop()
	group.Wait()
	if err := errors.Join(err, cleaner.Close(context.WithoutCancel(ctx))); err != nil {
		return err
	}
	return s.check(ctx)
}

// openStore, like the sample, opens the store of the numbers in the ledger's database.
func openStore(p place.Place, db *sql.DB) (*sqlsequence.Store[*sql.Tx], error) {
	if p.Driver == "pgx" {
		return sqlsequence.OpenPostgres(db, sqlsequence.Options{Schema: p.Scope})
	}
	return sqlsequence.OpenSQLite(db, sqlsequence.Options{})
}

// insert makes the same write as the sample, in the transaction that commits a number.
func insert(ctx context.Context, tx *sql.Tx, e sequence.Entry) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO transfers (seq, op, entry) VALUES ($1, $2, $3)", e.Seq, e.Op, string(e.Payload))
	return err
}

// finishTransfer is the step that finishes a transfer that a writer has left half done.
func finishTransfer(_ context.Context, e sequence.Entry) ([]byte, bool, error) {
	return append(e.Work.Data[:len(e.Work.Data):len(e.Work.Data)], " 10 coins"...), true, nil
}

func (s *sequenceShow) setUp(ctx context.Context) error {
	if s.Place.Driver == "sqlite3" { // so that readers and writers work side by side
		if _, err := s.Data.ExecContext(ctx, "PRAGMA journal_mode = wal"); err != nil {
			return err
		}
	}
	if _, err := s.Data.ExecContext(ctx, "CREATE TABLE transfers (seq bigint PRIMARY KEY, op text NOT NULL UNIQUE, entry text NOT NULL)"); err != nil {
		return err
	}
	if err := s.store.Migrate(ctx); err != nil {
		return err
	}
	return s.store.CreateStream(ctx, stream)
}

// watch reports the closed numbers to the show, in order.
func (s *sequenceShow) watch(ctx context.Context) {
	for e, err := range (sequence.Reader{Records: s.store, Stream: stream}).Follow(ctx, 1) {
		if err != nil {
			if ctx.Err() == nil {
				s.Send(ctx, runner.Report{Kind: runner.Failed, Text: err.Error()})
			}
			return
		}
		r := runner.Report{Kind: closed, Number: e.Seq, At: time.Now()}
		switch e.State {
		case sequence.Recovered:
			r.Text = fmt.Sprintf("── the cleaner recovers number %d of %s as %d", e.Seq, e.Op, e.ReplacedBy)
		case sequence.Gap:
			r.Text = fmt.Sprintf("── number %d of %s is a gap: %s", e.Seq, e.Op, e.Reason)
		}
		s.Send(ctx, r)
	}
}

// read runs a reader, which follows the ledger up to the seal.
func (s *sequenceShow) read(ctx context.Context, i int) {
	reader := sequence.Reader{Records: s.store, Stream: stream, Sealed: true, Page: 1 + 10*i}
	for e, err := range reader.Follow(ctx, 1) {
		if err != nil {
			return // the check notices the missing entries
		}
		s.readers[i].entries = append(s.readers[i].entries, describe(e))
		s.readers[i].at.Store(e.Seq)
	}
}

func describe(e sequence.Entry) string {
	return fmt.Sprintf("%d %s %q origin %d", e.Seq, e.State, e.Payload, e.Origin)
}

// direct starts the workers, kills and pauses some, and seals the decided numbers, until all
// workers have ended.
func (s *sequenceShow) direct(ctx context.Context) error {
	s.Announce("eight writers write transfers, under leases of %v", leaseFor)
	for i := range 8 {
		if name := fmt.Sprintf("w%d", i+1); name != cutOffWriter {
			if err := s.start(ctx, name); err != nil {
				return err
			}
		}
	}
	for s.Running() > 0 || !s.cameBack {
		r, err := s.Next(ctx)
		if err != nil {
			return err
		}
		s.Line(r)
		if s.trouble(r) {
			continue
		}
		s.Continue(r.Worker)
		if err := s.react(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// start starts a worker, with a journal of the same name.
func (s *sequenceShow) start(ctx context.Context, name string) error {
	args := []string{"-journal", filepath.Join(s.folder, name)}
	if s.Place.Driver == "pgx" {
		args = append(args, "-schema", s.Place.Scope)
	}
	return s.Start(ctx, name, args...)
}

// settle waits until no number is open, seals all numbers, and lets the readers finish.
func (s *sequenceShow) settle(ctx context.Context) error {
	status, err := s.store.Status(ctx, stream)
	if err != nil {
		return err
	}
	if err := sequence.Wait(ctx, s.store, stream, status.Last+1); err != nil {
		return err
	}
	if s.sealed, err = s.store.Seal(ctx, stream, 0); err != nil {
		return err
	}
	for i := range s.readers {
		for s.readers[i].at.Load() < s.sealed {
			select {
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	return nil
}
