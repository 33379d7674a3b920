package sqlsequence

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/distributedleasing/leasing/sequence/internal/watch"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Options configure a store. The zero value is ready to use.
type Options struct {
	// Schema is PostgreSQL's schema. Default "leasing", as in package postgreslease. SQLite has no schemas.
	Schema string
	// Prefix begins the names of the tables. Default "sequence_".
	Prefix string
	// Audit keeps an event for each change of a number, written by triggers in the same transaction, until the
	// number is forgotten: see Store.Events. Migrate creates its table and triggers. The audit costs a row for
	// each change.
	Audit bool
	// NoWakeups turns LISTEN and NOTIFY off, as behind a pooler by transaction. Waiters poll.
	NoWakeups bool
}

// Store is a seqstore.Store in tables. It is safe for concurrent use.
type Store[Tx any] struct {
	on      backend[Tx]
	sql     *statements
	schema  string
	prefix  string
	lite    bool
	audit   bool
	hub     watch.Hub
	wake    *wakeups // nil without LISTEN and NOTIFY
	checked atomic.Bool
	strict  atomic.Bool            // transactions are stricter than READ COMMITTED by default
	leasing atomic.Int32           // requests for a number that are under way
	leases  *batch.Batcher[*lease] // nil where single statements share a transaction
}

var (
	_ seqstore.Store[*sql.Tx] = (*Store[*sql.Tx])(nil)
	_ seqstore.Store[pgx.Tx]  = (*Store[pgx.Tx])(nil)
)

var identifier = regexp.MustCompile(`^[a-z_][a-z0-9_]{0,39}$`)

// newStore makes a store. connect opens a listening connection; it is nil if the driver can't
// listen.
func newStore[Tx any](on backend[Tx], d dialect, o Options, connect func(context.Context) (*pgx.Conn, error)) (*Store[Tx], error) {
	o.Prefix = cmp.Or(o.Prefix, "sequence_")
	if d.lite && o.Schema != "" {
		return nil, &leasing.InvalidError{Field: "Options.Schema", Value: o.Schema, Want: `"": SQLite has no schemas`}
	}
	if !d.lite {
		o.Schema = cmp.Or(o.Schema, "leasing")
	}
	if !d.lite && !identifier.MatchString(o.Schema) {
		return nil, &leasing.InvalidError{Field: "Options.Schema", Value: o.Schema, Want: "1 to 40 characters a-z, 0-9 and _, beginning with no digit"}
	}
	if !identifier.MatchString(o.Prefix) {
		return nil, &leasing.InvalidError{Field: "Options.Prefix", Value: o.Prefix, Want: "1 to 40 characters a-z, 0-9 and _, beginning with no digit"}
	}
	s := &Store[Tx]{on: on, sql: newStatements(d, o.Schema, o.Prefix), schema: o.Schema, prefix: o.Prefix, lite: d.lite, audit: o.Audit}
	if d.leases != "" {
		s.leases = batch.New(s.issueAll, batch.UntilItLeaves)
	}
	if !d.lite && !o.NoWakeups {
		s.wake = newWakeups(&s.hub, on, o.Schema, o.Prefix, connect)
	}
	return s, nil
}

// OpenPostgres makes a store on PostgreSQL over the application's database. It makes no request.
// Close it before the database.
func OpenPostgres(db *sql.DB, options Options) (*Store[*sql.Tx], error) {
	if db == nil {
		return nil, &leasing.InvalidError{Field: "db", Value: nil, Want: "a *sql.DB"}
	}
	return newStore[*sql.Tx](newSQLDatabase(db), postgresDialect, options, pgkit.ListenLike(db))
}

// OpenPool makes a store on PostgreSQL over the application's pool. It makes no request. Close it
// before the pool.
func OpenPool(pool *pgxpool.Pool, options Options) (*Store[pgx.Tx], error) {
	if pool == nil {
		return nil, &leasing.InvalidError{Field: "pool", Value: nil, Want: "a *pgxpool.Pool"}
	}
	return newStore[pgx.Tx](newPgxDatabase(pool), postgresDialect, options, pgkit.ListenAs(pool))
}

// OpenSQLite makes a store on an SQLite file over the application's database, with any driver
// that waits for locks (a busy timeout). WAL mode lets readers and writers work side by side. It makes no
// request.
func OpenSQLite(db *sql.DB, options Options) (*Store[*sql.Tx], error) {
	if db == nil {
		return nil, &leasing.InvalidError{Field: "db", Value: nil, Want: "a *sql.DB"}
	}
	return newStore[*sql.Tx](&sqliteDatabase{db: db, turn: make(chan struct{}, 1)}, sqliteDialect, options, nil)
}

// preparing is a backend that benefits from prepared statements.
type preparing interface {
	prepare(ctx context.Context, statements []string) error
	close()
}

// Close stops listening and notifying, and closes the prepared statements. After Close no number can be leased.
// The database stays open.
func (s *Store[Tx]) Close() error {
	if s.leases != nil {
		s.leases.Close()
	}
	if p, ok := s.on.(preparing); ok {
		p.close()
	}
	if s.wake != nil {
		s.wake.close()
	}
	return nil
}

// once runs one statement that changes or reads something, in a transaction of its own.
func (s *Store[Tx]) once(ctx context.Context, statement string, args []any, each func(scan) error) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.explain(s.change(ctx, statement, args, each))
}

// change runs one statement that changes something, as READ COMMITTED. At a stricter level the server would refuse one of
// two concurrent changes of a row.
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

// within runs do in a transaction, which do bounds by itself if bounded is set. An error of the caller's write, or of package
// sequence, is returned unchanged, unless the connection is dead.
func (s *Store[Tx]) within(ctx context.Context, bounded bool, do func(on session, tx Tx) error) error {
	if err := s.check(ctx); err != nil {
		return err
	}
	return s.explain(s.on.transact(ctx, bounded, do))
}

// answered marks an error that is not a failure of the database.
type answered struct{ error }

func (a *answered) Unwrap() error { return a.error }

func answer(err error) error {
	if err == nil {
		return nil
	}
	return &answered{err}
}

// closed wakes the waiters of a stream.
func (s *Store[Tx]) closed(stream string) {
	s.hub.Wake(stream)
	if s.wake != nil {
		s.wake.notify(stream)
	}
}

// row is an entry as it is stored, and the database's time.
type row struct {
	seqstore.Entry
	now time.Time
}

func (r *row) scan(scan scan) error {
	var leased, expires, closed, filled, claim, notBefore, now int64
	var state, phase string
	err := scan(&r.Stream, &r.Seq, &r.Op, &r.Kind, &r.Owner, &state, &r.Token, &leased, &expires, &closed, &filled, &r.Renewals,
		&r.ClaimID, &r.ClaimOwner, &claim, &r.Attempts, &notBefore, &r.LastError, &r.Origin, &r.ReplacedBy, &r.Reason, &r.Payload, &phase, &r.Work.Data, &r.Uncleaned, &now)
	r.State, r.Work.Phase = seqstore.State(state), seqstore.Phase(phase)
	r.LeasedAt, r.ExpiresAt, r.ClosedAt, r.FilledAt = timeOf(leased), timeOf(expires), timeOf(closed), timeOf(filled)
	r.ClaimUntil, r.NotBefore, r.now = timeOf(claim), timeOf(notBefore), timeOf(now)
	return err
}

func timeOf(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// micros rounds up: never early.
func micros(d time.Duration) int64 { return int64((d + time.Microsecond - 1) / time.Microsecond) }

// one runs a statement that returns at most one entry.
func one(ctx context.Context, on session, statement string, args ...any) (r row, found bool, err error) {
	err = on.query(ctx, statement, args, func(scan scan) error {
		found = true
		return r.scan(scan)
	})
	return r, found, err
}

// some runs a statement, and reports whether it returned a row.
func some(ctx context.Context, on session, statement string, args ...any) (found bool, err error) {
	err = on.query(ctx, statement, args, func(scan) error {
		found = true
		return nil
	})
	return found, err
}

// stream is a stream's row.
type streamRow struct {
	next, sealed int64
	recovery     time.Time
	now          time.Time
}

// lock locks a stream's row, or returns the error of an unknown stream.
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
	r, found, err := one(ctx, on, s.sql.get, stream, seq)
	if err == nil && !found {
		if known, err := some(ctx, on, s.sql.through, stream); err != nil || !known {
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

func digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
