package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/samples/internal/runner"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/sqlsequence"
)

// troubles are those of the workers w1 to w8.
var troubles = []string{killedEmpty, killedHalf, killedDone, pausedToGap, pausedToSeal, pausedToOther, cutOff, givesUp}

// closed is a number that readers may see now: a report of the parent's own.
const closed = "closed"

// show is a run of the sample.
type show struct {
	*runner.Runner
	store   *sqlsequence.Store[*sql.Tx]
	folder  string           // of journals
	numbers map[string]int64 // on which trouble has come, by trouble
	done    map[int64]bool   // numbers on which trouble has come, and which are closed
	refused map[int64]int    // late commits
	away    string           // the worker that was cut off, once it has ended
	sealed  int64
	seen    int64 // the latest number that was closed
	readers [3]struct {
		entries []string
		at      atomic.Int64
	} // the entries that each has read, and its position
}

func control(ctx context.Context, r *runner.Runner) (err error) {
	s := &show{Runner: r, numbers: map[string]int64{}, done: map[int64]bool{}, refused: map[int64]int{}}
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

// finishTransfer is the step that finishes a transfer that a writer has left half done.
func finishTransfer(_ context.Context, e sequence.Entry) ([]byte, bool, error) {
	return finish(e.Work.Data), true, nil
}

func (s *show) setUp(ctx context.Context) error {
	if s.Place.Driver == "sqlite3" { // so that readers and writers work side by side
		if _, err := s.Data.ExecContext(ctx, "PRAGMA journal_mode = wal"); err != nil {
			return err
		}
	}
	if err := s.Data.Create(ctx, "CREATE TABLE ledger (seq bigint PRIMARY KEY, op text NOT NULL UNIQUE, entry text NOT NULL)"); err != nil {
		return err
	}
	if err := s.store.Migrate(ctx); err != nil {
		return err
	}
	return s.store.CreateStream(ctx, stream)
}

// watch reports the closed numbers to the show, in order.
func (s *show) watch(ctx context.Context) {
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

// read is a reader's life: it follows the ledger, up to the seal.
func (s *show) read(ctx context.Context, i int) {
	reader := sequence.Reader{Records: s.store, Stream: stream, Sealed: true, Page: 1 + 10*i}
	for e, err := range reader.Follow(ctx, 1) {
		if err != nil {
			return // the check finds out
		}
		s.readers[i].entries = append(s.readers[i].entries, describe(e))
		s.readers[i].at.Store(e.Seq)
	}
}

func describe(e sequence.Entry) string {
	return fmt.Sprintf("%d %s %q origin %d", e.Seq, e.State, e.Payload, e.Origin)
}

// direct starts the workers, brings trouble on them, and seals what is decided, until all are gone.
func (s *show) direct(ctx context.Context) error {
	s.Announce("%d processes write %d transfers each, under leases of %v", len(troubles), transfers, leaseFor)
	for i, trouble := range troubles {
		if err := s.start(ctx, fmt.Sprintf("w%d", i+1), trouble); err != nil {
			return err
		}
	}
	for s.Running() > 0 || s.away != "" {
		r, err := s.Next(ctx)
		if err != nil {
			return err
		}
		s.Line(r)
		if err := s.react(ctx, r); err != nil {
			return err
		}
	}
	return nil
}

// start starts a worker. A worker that comes back finds its journal under its name.
func (s *show) start(ctx context.Context, name, trouble string) error {
	return s.Start(ctx, name, trouble+"\n"+filepath.Join(s.folder, strings.TrimSuffix(name, "+")))
}

// troubleOf is a worker's.
func troubleOf(worker string) string {
	var i int
	_, _ = fmt.Sscanf(worker, "w%d", &i)
	return troubles[i-1]
}

func (s *show) react(ctx context.Context, r runner.Report) error {
	switch r.Kind {
	case troubled:
		trouble := troubleOf(r.Worker)
		s.numbers[trouble] = r.Number
		switch {
		case strings.HasPrefix(trouble, "killed"):
			s.Announce("kill -KILL %s (%s)", r.Worker, trouble)
			s.Kill(r.Worker)
		case strings.HasPrefix(trouble, "paused"):
			s.Announce("kill -STOP %s (%s)", r.Worker, trouble)
			s.Pause(r.Worker)
		}
		return nil
	case refused:
		s.refused[r.Number]++
		return nil
	case settled:
		s.done[r.Number] = true
	case closed:
		s.seen = r.Number
		for _, trouble := range []string{pausedToGap, pausedToOther} {
			if r.Number == s.numbers[trouble] {
				s.wake(trouble)
			}
		}
	case runner.Exited:
		if troubleOf(r.Worker) == cutOff && !strings.HasSuffix(r.Worker, "+") {
			s.away = r.Worker
		}
	}
	if s.away != "" && s.seen >= s.numbers[cutOff] {
		name := s.away + "+"
		s.away = ""
		s.Announce("%s comes back as %s", name[:len(name)-1], name)
		if err := s.start(ctx, name, back); err != nil {
			return err
		}
	}
	return s.seal(ctx)
}

// wake resumes the worker that was paused for a trouble.
func (s *show) wake(trouble string) {
	name := fmt.Sprintf("w%d", slices.Index(troubles, trouble)+1)
	s.Announce("kill -CONT %s, which still wants to commit", name)
	s.Resume(name)
	s.Continue(name)
}

// seal seals what is closed, up to the gaps that are still wanted.
func (s *show) seal(ctx context.Context) (err error) {
	upTo := s.seen
	for _, trouble := range []string{pausedToGap, cutOff} {
		if seq := s.numbers[trouble]; seq != 0 && !s.done[seq] {
			upTo = min(upTo, seq-1)
		}
	}
	before := s.sealed
	if upTo <= before {
		return nil
	}
	s.sealed, err = s.store.Seal(ctx, stream, upTo)
	if seq := s.numbers[pausedToSeal]; err == nil && before < seq && seq <= s.sealed {
		s.wake(pausedToSeal)
	}
	return err
}

// settle waits until nothing is open, seals all, and lets the readers finish.
func (s *show) settle(ctx context.Context) error {
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
			if sleep(ctx, 10); ctx.Err() != nil {
				return context.Cause(ctx)
			}
		}
	}
	return nil
}
