package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/samples/internal/place"
	"github.com/distributedleasing/leasing/samples/internal/runner"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/distributedleasing/leasing/sequence/sqlsequence"
)

const stream = "ledger"

// openStore opens the numbers beside the ledger, so that a transaction has both.
func openStore(p place.Place, db *sql.DB) (*sqlsequence.Store[*sql.Tx], error) {
	if p.Driver == "pgx" {
		return sqlsequence.OpenPostgres(db, sqlsequence.Options{Schema: p.Scope})
	}
	return sqlsequence.OpenSQLite(db, sqlsequence.Options{})
}

// insert is the application's own write. It joins the transaction that commits a number,
// whichever process commits that number.
func insert(ctx context.Context, tx *sql.Tx, e sequence.Entry) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO ledger (seq, op, entry) VALUES ($1, $2, $3)", e.Seq, e.Op, string(e.Payload))
	return err
}

// The troubles of workers.
const (
	killedEmpty   = "killed, nothing saved"
	killedHalf    = "killed, half of its work saved"
	killedDone    = "killed, its work saved"
	pausedToGap   = "paused, back at a gap"
	pausedToSeal  = "paused, back at a sealed gap"
	pausedToOther = "paused, its work saved"
	cutOff        = "cut off, back with a journal"
	givesUp       = "gives up"
	none          = ""
)

// A worker that comes back has this argument in place of a trouble.
const back = "back"

// The kinds of the workers' reports.
const (
	troubled = "troubled" // has number Number, and waits for its trouble
	refused  = "refused"  // its commit of Number, which came too late
	settled  = "settled"  // the outcome of the result of Number is decided
)

// transfers is the number of transfers of each worker; trouble comes with transfer troubleAt.
const transfers, troubleAt = 20, 4

// writer is a worker.
type writer struct {
	*runner.Worker
	line    *line
	stream  *sequence.Stream[*sql.Tx]
	trouble string
}

// work writes transfers. The worker's argument is its trouble, and the path of its journal.
func work(ctx context.Context, w *runner.Worker) (err error) {
	trouble, path, _ := strings.Cut(w.Arg, "\n")
	journal, err := sequence.OpenJournal(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	store, err := openStore(w.Place, w.Data.DB)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	line := &line{Store: store}
	s, err := sequence.NewStream(line, stream, sequence.Options[*sql.Tx]{
		Write: insert, Journal: journal, Lease: leasing.Options{Owner: w.Name},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close(context.WithoutCancel(ctx))) }()
	if trouble == back {
		return comeBack(ctx, w, s)
	}
	p := &writer{w, line, s, trouble}
	for i := 1; i <= transfers && !line.cut.Load() && err == nil; i++ {
		err = p.transfer(ctx, i)
	}
	return err
}

// comeBack settles the results in the journal of the worker's earlier process.
func comeBack(ctx context.Context, w *runner.Worker, s *sequence.Stream[*sql.Tx]) error {
	synced, err := s.Sync(ctx)
	for _, result := range synced {
		w.Say(settled, result.Seq, "is back with its journal: the result of number %d is %s", result.Seq, result.Settlement)
	}
	return err
}

// transfer writes one transfer under the next number.
func (w *writer) transfer(ctx context.Context, i int) error {
	op, trouble := fmt.Sprintf("%s/%d", w.Name, i), none
	if i == troubleAt {
		trouble = w.trouble
	}
	var seq int64
	err := w.stream.Do(ctx, sequence.Operation{ID: op, Kind: "transfer", Duration: leaseFor}, func(ctx context.Context, n *sequence.Number[*sql.Tx]) error {
		seq = n.Seq()
		sleep(ctx, 50+rand.IntN(200)) // stands for work
		half := fmt.Appendf(nil, "%s pays", op)
		if err := w.meet(ctx, trouble, n, half); err != nil {
			return err
		}
		if trouble != none {
			// No application should commit after the end of its lease. But a commit may be on its way when the lease ends.
			inFlight, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			ctx = inFlight
		}
		err := n.Commit(ctx, finish(half), nil)
		if errors.Is(err, sequence.ErrLate) {
			w.Say(refused, n.Seq(), "its commit is refused: %v", err)
		}
		return err
	})
	late := (*sequence.LateCommitError)(nil)
	switch {
	case errors.As(err, &late):
		kind := settled
		if late.Settled == sequence.SettledJournaled { // until it comes back
			kind = ""
		}
		w.Say(kind, seq, "the result of its number %d is %s", seq, late.Settled)
		return nil
	case errors.Is(err, errNoCover):
		w.Say("", seq, "gives number %d up: %v", seq, err)
		return nil
	case err == nil && trouble != none:
		w.Say(settled, seq, "its number %d has its result all the same", seq)
	}
	return err
}

// finish completes the first half of an entry.
func finish(half []byte) []byte { return append(half[:len(half):len(half)], " 10 coins"...) }

var errNoCover = errors.New("no cover")

// meet waits for a trouble.
func (w *writer) meet(ctx context.Context, trouble string, n *sequence.Number[*sql.Tx], half []byte) (err error) {
	switch trouble {
	case none:
		return nil
	case givesUp:
		return errNoCover
	case cutOff:
		w.line.cut.Store(true)
		w.Say(troubled, n.Seq(), "has number %d, and can't reach the database any more", n.Seq())
		return nil
	case killedHalf:
		err = n.Save(ctx, sequence.Partial, half)
	case killedDone, pausedToOther:
		err = n.Save(ctx, sequence.Completed, finish(half))
	}
	if err == nil {
		w.SayAndWait(troubled, n.Seq(), "has number %d", n.Seq())
	}
	return err
}

// line is the way to the database, which may be cut.
type line struct {
	sequence.Store[*sql.Tx]
	cut atomic.Bool
}

// state is an error for as long as the line is cut.
func (l *line) state() error {
	if l.cut.Load() {
		return fmt.Errorf("%w: the line is cut", leasing.ErrUnavailable)
	}
	return nil
}

func (l *line) Renew(ctx context.Context, req seqstore.RenewRequest) (time.Duration, error) {
	if err := l.state(); err != nil {
		return 0, err
	}
	return l.Store.Renew(ctx, req)
}

func (l *line) Commit(ctx context.Context, req seqstore.CommitRequest, write sequence.Write[*sql.Tx]) (sequence.Entry, error) {
	if err := l.state(); err != nil {
		return sequence.Entry{}, err
	}
	return l.Store.Commit(ctx, req, write)
}

func (l *line) Find(ctx context.Context, stream, op string) (sequence.Entry, error) {
	if err := l.state(); err != nil {
		return sequence.Entry{}, err
	}
	return l.Store.Find(ctx, stream, op)
}

// sleep waits for so many milliseconds, or until ctx ends.
func sleep(ctx context.Context, ms int) {
	select {
	case <-ctx.Done():
	case <-time.After(time.Duration(ms) * time.Millisecond):
	}
}
