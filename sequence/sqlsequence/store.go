package sqlsequence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/sequence/internal/watch"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/jackc/pgx/v5"
)

// Store is a seqstore.Store in tables. It is safe for concurrent use.
type Store[Tx any] struct {
	failures
	on      backend[Tx]
	sql     *statements
	schema  string
	prefix  string
	audit   bool
	hub     watch.Hub
	wake    *wakeups // nil without LISTEN and NOTIFY
	checked atomic.Bool
	strict  atomic.Bool                    // transactions are stricter than READ COMMITTED by default
	leasing atomic.Int32                   // requests for a number that are under way
	leases  *batch.Batcher[*numberRequest] // nil where single statements share a transaction
}

var (
	_ seqstore.Store[*sql.Tx] = (*Store[*sql.Tx])(nil)
	_ seqstore.Store[pgx.Tx]  = (*Store[pgx.Tx])(nil)
)

// preparing is a backend that benefits from prepared statements.
type preparing interface {
	prepare(ctx context.Context, statements []string) error
	close()
}

// once runs one statement that changes or reads something, in a transaction of its own.
func (s *Store[Tx]) once(ctx context.Context, statement string, args []any, each func(scan) error) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.explain(s.change(ctx, statement, args, each))
}

// change runs one statement that changes something, at READ COMMITTED. At a stricter level the server would refuse one of
// two concurrent changes to a row.
func (s *Store[Tx]) change(ctx context.Context, statement string, args []any, each func(scan) error) error {
	if s.strict.Load() {
		return s.on.transact(ctx, false, func(on session, _ Tx) error { return on.query(ctx, statement, args, each) })
	}
	return s.on.change(ctx, statement, args, each)
}

// read runs one statement that only reads.
func (s *Store[Tx]) read(ctx context.Context, statement string, args []any, each func(scan) error) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.explain(s.on.query(ctx, statement, args, each))
}

// within runs do in a transaction. If bounded is set, do itself bounds the transaction. An error from the caller's write, or from
// package sequence, is returned unchanged, unless the connection is dead.
func (s *Store[Tx]) within(ctx context.Context, bounded bool, do func(on session, tx Tx) error) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.explain(s.on.transact(ctx, bounded, do))
}

// wakeWaiters wakes the waiters of a stream.
func (s *Store[Tx]) wakeWaiters(stream string) {
	s.hub.Wake(stream)
	if s.wake != nil {
		s.wake.notify(stream)
	}
}

// lock locks a stream's row, or returns the error for an unknown stream.
func (s *Store[Tx]) lock(ctx context.Context, on session, stream string) (streamRow, error) {
	return s.lockBy(ctx, on, s.sql.lock, stream)
}

// lockBy locks the row with a statement whose first parameter is the stream.
func (s *Store[Tx]) lockBy(ctx context.Context, on session, statement, stream string, args ...any) (r streamRow, err error) {
	found := false
	if s.lite {
		statement, args = s.sql.lock, nil
	}
	err = on.query(ctx, statement, append([]any{stream}, args...), func(scan scan) error {
		var recovery, now int64
		found = true
		err := scan(&r.next, &r.sealed, &recovery, &now)
		r.recovery, r.now = timeOf(recovery), timeOf(now)
		return err
	})
	if err == nil && !found {
		err = answer(seqstore.UnknownStream(stream))
	}
	return r, err
}

// entry returns an entry after a guard has failed.
func (s *Store[Tx]) entry(ctx context.Context, on session, stream string, seq int64) (row, error) {
	r, found, err := queryEntry(ctx, on, s.sql.get, stream, seq)
	if err == nil && !found {
		if known, err := hasRow(ctx, on, s.sql.through, stream); err != nil || !known {
			return r, errors.Join(err, answer(seqstore.UnknownStream(stream)))
		}
		err = answer(seqstore.NotFound(stream, fmt.Sprint("number ", seq)))
	}
	return r, err
}

// CreateStream makes a stream.
func (s *Store[Tx]) CreateStream(ctx context.Context, stream string) error {
	if err := seqstore.ValidateText("stream", stream, seqstore.MaxStreamBytes, false); err != nil {
		return err
	}
	return s.once(ctx, s.sql.createStream, []any{stream}, func(scan) error { return nil })
}
