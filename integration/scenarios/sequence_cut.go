package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/integration/scenarios/runner"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// cutOffWriter runs in this process until it is cut off, since the connection of a sample's process
// can't be cut.
const cutOffWriter = "w7"

// writeUntilCutOff writes a transfer, and loses its connection to the database before the commit. The result stays in the
// writer's journal.
func (s *sequenceShow) writeUntilCutOff(ctx context.Context) {
	r := runner.Report{Worker: cutOffWriter, Kind: away, Text: "keeps its result in its journal"}
	if err := s.cutOff(ctx); err != nil {
		r.Kind, r.Text = runner.Failed, err.Error()
	}
	r.At = time.Now()
	s.Send(ctx, r)
}

func (s *sequenceShow) cutOff(ctx context.Context) (err error) {
	journal, err := sequence.OpenJournal(filepath.Join(s.folder, cutOffWriter))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, journal.Close()) }()
	way := &cuttableStore{Store: s.store}
	writer, err := sequence.NewStream(way, stream, sequence.Options[*sql.Tx]{Write: insert, Journal: journal, Lease: leasing.Options{Owner: cutOffWriter}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, writer.Close(context.WithoutCancel(ctx))) }()
	err = writer.Do(ctx, sequence.Operation{ID: cutOffWriter + "/0", Kind: "transfer", Duration: leaseFor},
		func(_ context.Context, n *sequence.Number[*sql.Tx]) error {
			way.cut.Store(true)
			s.Send(ctx, runner.Report{Worker: cutOffWriter, Kind: cutOff, Number: n.Seq(), At: time.Now(),
				Text: fmt.Sprintf("has number %d, and can't reach the database any more", n.Seq())})
			return n.Commit(ctx, []byte(cutOffWriter+"/0 pays 10 coins"), nil)
		})
	if late, is := errors.AsType[*sequence.LateCommitError](err); !is || late.Settled != sequence.SettledJournaled {
		return fmt.Errorf("the result of the writer that was cut off is not in its journal: %v", err)
	}
	return nil
}

// cuttableStore is a connection to the database that can be cut.
type cuttableStore struct {
	sequence.Store[*sql.Tx]
	cut atomic.Bool
}

// state returns an error while the connection is cut.
func (l *cuttableStore) state() error {
	if l.cut.Load() {
		return fmt.Errorf("%w: the line is cut", leasing.ErrUnavailable)
	}
	return nil
}

func (l *cuttableStore) Renew(ctx context.Context, req seqstore.RenewRequest) (time.Duration, error) {
	if err := l.state(); err != nil {
		return 0, err
	}
	return l.Store.Renew(ctx, req)
}

func (l *cuttableStore) Commit(ctx context.Context, req seqstore.CommitRequest, write sequence.Write[*sql.Tx]) (sequence.Entry, error) {
	if err := l.state(); err != nil {
		return sequence.Entry{}, err
	}
	return l.Store.Commit(ctx, req, write)
}

func (l *cuttableStore) Find(ctx context.Context, stream, op string) (sequence.Entry, error) {
	if err := l.state(); err != nil {
		return sequence.Entry{}, err
	}
	return l.Store.Find(ctx, stream, op)
}
