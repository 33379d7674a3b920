package sqlsequence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/postgres/pgkit"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// scan reads the columns of one row.
type scan func(dest ...any) error

// session runs statements, in one transaction or each in its own.
type session interface {
	query(ctx context.Context, statement string, args []any, each func(scan) error) error
}

// backend is the access to a database. change runs one statement that changes something, in a transaction of its own. transact
// runs do in a transaction, and commits the transaction if do returns nil. If bounded is true, the first statement of do
// bounds the transaction; otherwise transact does so with postgresStep.
type backend[Tx any] interface {
	session
	change(ctx context.Context, statement string, args []any, each func(scan) error) error
	transact(ctx context.Context, bounded bool, do func(on session, tx Tx) error) error
}

// attempt runs do in a transaction that has begun, and ends the transaction. An error from COMMIT is a *commitError.
// If the connection can't even roll back, the error from do becomes a *brokenError.
func attempt(do, commit, rollback func() error) error {
	ended := false
	defer func() {
		if !ended { // the caller's write has panicked: the panic propagates
			_ = rollback()
		}
	}()
	err := do()
	ended = true
	if err != nil {
		if broken := rollback(); broken != nil && !errors.Is(broken, sql.ErrTxDone) && !errors.Is(broken, pgx.ErrTxClosed) {
			return &brokenError{err}
		}
		return err
	}
	if err = commit(); err != nil {
		return &commitError{err}
	}
	return nil
}

// commitError is an error from COMMIT, or from a statement after the caller's write.
type commitError struct{ error }

func (e *commitError) Unwrap() error { return e.error }

// brokenError is an error in a transaction whose connection is dead. COMMIT was not sent.
type brokenError struct{ error }

func (e *brokenError) Unwrap() error { return e.error }

// answerError marks an error that does not mean that the database failed.
type answerError struct{ error }

func (a *answerError) Unwrap() error { return a.error }

func answer(err error) error {
	if err == nil {
		return nil
	}
	return &answerError{err}
}

// sqlQuerier is a *sql.DB or *sql.Tx.
type sqlQuerier interface {
	QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error)
}

// sqlSession is a session of database/sql.
type sqlSession struct{ on sqlQuerier }

func (s sqlSession) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	rows, err := s.on.QueryContext(ctx, statement, args...) //nolint:rowserrcheck // scanAll does
	if err != nil {
		return err
	}
	defer rows.Close()
	return cmp.Or(scanAll(rows, each), rows.Close())
}

// rows is the part that sql.Rows and pgx.Rows have in common.
type rows interface {
	Next() bool
	Scan(dest ...any) error
	Err() error
}

func scanAll(rows rows, each func(scan) error) error {
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// hasRow runs a statement, and reports whether it returned a row.
func hasRow(ctx context.Context, on session, statement string, args ...any) (found bool, err error) {
	err = on.query(ctx, statement, args, func(scan) error {
		found = true
		return nil
	})
	return found, err
}

// postgresPool drops the application's connections after certain errors of PostgreSQL.
type postgresPool struct {
	unprepared *atomic.Bool // whether the server loses prepared statements; nil if the driver is not pgx
	drop       func(context.Context)
}

// args returns the arguments of a statement. If the server loses prepared statements, the arguments
// begin with pgx's mode without preparation.
func (p postgresPool) args(args []any) []any {
	if p.unprepared == nil || !p.unprepared.Load() {
		return args
	}
	return append([]any{pgx.QueryExecModeExec}, args...)
}

// run calls a function, and classifies its error.
func (p postgresPool) run(ctx context.Context, do func() error) error {
	err := do()
	var own *answerError
	var ending *commitError
	if err == nil || errors.As(err, &own) || errors.As(err, &ending) { // no error that makes a connection unusable
		return err
	}
	verdict := pgkit.Verdict(err)
	if verdict.Unprepared && p.unprepared != nil {
		p.unprepared.Store(true)
	}
	if verdict.Close {
		p.drop(ctx)
	}
	return err
}

// sqlDatabase is PostgreSQL through database/sql.
type sqlDatabase struct {
	postgresPool
	db *sql.DB
}

func newSQLDatabase(db *sql.DB) sqlDatabase {
	d := sqlDatabase{postgresPool{drop: func(ctx context.Context) { pgkit.DropDB(ctx, db) }}, db}
	if pgkit.ListenLike(db) != nil {
		d.unprepared = new(atomic.Bool)
	}
	return d
}

func (d sqlDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return d.run(ctx, func() error { return sqlSession{d.db}.query(ctx, statement, d.args(args), each) })
}

func (d sqlDatabase) change(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return d.query(ctx, statement, args, each)
}

func (d sqlDatabase) transact(ctx context.Context, bounded bool, do func(session, *sql.Tx) error) error {
	return d.run(ctx, func() error {
		tx, err := d.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
		if err != nil {
			return err
		}
		return attempt(func() error {
			on := pooledSession{d.postgresPool, sqlSession{tx}}
			if !bounded {
				if _, err := hasRow(ctx, on, postgresStep); err != nil {
					return err
				}
			}
			return do(on, tx)
		}, tx.Commit, tx.Rollback)
	})
}

// pooledSession is a transaction of PostgreSQL.
type pooledSession struct {
	pool postgresPool
	session
}

func (s pooledSession) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return s.session.query(ctx, statement, s.pool.args(args), each)
}

// sqliteDatabase queues the writers of this process in memory, and not at the lock of the file, which can only be polled.
// Waiting single statements join the transaction of the current writer.
type sqliteDatabase struct {
	db       *sql.DB
	turn     chan struct{} // has one element
	prepared sync.Map      // from a statement to *sql.Stmt: SQLite takes longer to parse our statements than to run them

	mu      sync.Mutex
	waiting []*queuedStatement
}

// prepare prepares statements. It is called outside of transactions, since it may need a connection.
func (d *sqliteDatabase) prepare(ctx context.Context, statements []string) error {
	for _, statement := range statements {
		if _, ok := d.prepared.Load(statement); ok {
			continue
		}
		prepared, err := d.db.PrepareContext(ctx, statement)
		if err != nil {
			return err
		}
		if _, loaded := d.prepared.LoadOrStore(statement, prepared); loaded {
			_ = prepared.Close() //nolint:sqlclosecheck // only a duplicate statement is closed
		}
	}
	return nil
}

func (d *sqliteDatabase) close() {
	d.prepared.Range(func(statement, prepared any) bool {
		d.prepared.Delete(statement)
		_ = prepared.(*sql.Stmt).Close()
		return true
	})
}

// query runs a statement that reads. In WAL mode it does not wait for writers.
func (d *sqliteDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return sqliteSession{d, nil}.query(ctx, statement, args, each)
}

// queuedStatement is a statement that waits for its turn. The call of transactShared that takes it from the queue sets err and
// closes done.
type queuedStatement struct {
	statement string
	args      []any
	each      func(scan) error
	err       error
	done      chan struct{}
}

// If no other statement waits, change needs no BEGIN: a writing statement takes the file's lock at its start,
// and has committed when its rows have been read.
func (d *sqliteDatabase) change(ctx context.Context, statement string, args []any, each func(scan) error) error {
	p := &queuedStatement{statement: statement, args: args, each: each, done: make(chan struct{})}
	d.mu.Lock()
	d.waiting = append(d.waiting, p)
	d.mu.Unlock()
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-p.done:
	case <-ctx.Done():
	}
	waited, others := d.dequeue(p)
	switch {
	case !waited:
		<-p.done // returns soon, because the file is already locked
		return p.err
	case ctx.Err() != nil:
		return ctx.Err()
	case !others:
		return d.query(ctx, statement, args, each)
	}
	return d.transactShared(ctx, func(s session, _ *sql.Tx) error { return s.query(ctx, statement, args, each) })
}

func (d *sqliteDatabase) transact(ctx context.Context, _ bool, do func(session, *sql.Tx) error) error {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.turn }()
	return d.transactShared(ctx, do)
}

// dequeue removes a statement from the queue. It reports whether the statement was still waiting, and whether others
// wait.
func (d *sqliteDatabase) dequeue(p *queuedStatement) (waited, others bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.waiting, p); i >= 0 {
		d.waiting, waited = slices.Delete(d.waiting, i, i+1), true
	}
	return waited, len(d.waiting) > 0
}

// transactShared runs do in a transaction. After do has succeeded, transactShared also runs the waiting statements, since the file is then
// already locked. All share the outcome. ctx can cut off only do, not the waiting statements.
func (d *sqliteDatabase) transactShared(ctx context.Context, do func(session, *sql.Tx) error) (err error) {
	var joined []*queuedStatement
	defer func() {
		shared := err
		if ending := (*commitError)(nil); errors.As(err, &ending) && sqlkit.SQLite(err).RolledBack {
			shared = answer(fmt.Errorf("sequence: %w", providerkit.Meaning{Class: providerkit.Refused}.Of(errShared)))
		}
		for _, p := range joined {
			p.err = shared
			close(p.done)
		}
	}()
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer func() {
		if ending := (*commitError)(nil); errors.As(err, &ending) { // SQLite leaves the transaction open, and a driver may too
			_, _ = conn.ExecContext(context.WithoutCancel(ctx), "ROLLBACK")
		}
	}()
	tx, err := conn.BeginTx(context.WithoutCancel(ctx), nil)
	if err != nil {
		return err
	}
	return attempt(func() error {
		s := sqliteSession{d, tx}
		if err := cmp.Or(do(s, tx), ctx.Err()); err != nil {
			return err
		}
		d.mu.Lock()
		joined, d.waiting = d.waiting, nil
		d.mu.Unlock()
		for _, p := range joined {
			if err := s.query(context.WithoutCancel(ctx), p.statement, p.args, p.each); err != nil {
				return err
			}
		}
		return nil
	}, tx.Commit, func() error {
		_ = tx.Rollback() // some errors have already rolled back the transaction
		return nil
	})
}

// errShared is the error for the queued statements if the writer's own part of the transaction was refused
// at COMMIT.
var errShared = errors.New("another writer's part of the shared transaction was refused: retry")

// sqliteSession is a transaction, or the database if tx is nil.
type sqliteSession struct {
	d  *sqliteDatabase
	tx *sql.Tx
}

func (s sqliteSession) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	on := sqlQuerier(s.d.db)
	if s.tx != nil {
		on = s.tx
	}
	if prepared, ok := s.d.prepared.Load(statement); ok {
		stmt := prepared.(*sql.Stmt)
		if s.tx != nil {
			stmt = s.tx.StmtContext(ctx, stmt)
		}
		on = preparedQuerier{stmt}
	}
	return sqlSession{on}.query(ctx, statement, args, each)
}

// preparedQuerier runs its prepared statement, and ignores the text that it gets.
type preparedQuerier struct{ *sql.Stmt }

func (p preparedQuerier) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	return p.Stmt.QueryContext(ctx, args...)
}

// pgxQuerier is a *pgxpool.Pool or a pgx.Tx.
type pgxQuerier interface {
	Query(ctx context.Context, statement string, args ...any) (pgx.Rows, error)
}

type pgxSession struct{ on pgxQuerier }

func (s pgxSession) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	rows, err := s.on.Query(ctx, statement, args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	return scanAll(rows, each)
}

type pgxDatabase struct {
	postgresPool
	pool *pgxpool.Pool
}

func newPgxDatabase(pool *pgxpool.Pool) pgxDatabase {
	return pgxDatabase{postgresPool{new(atomic.Bool), func(context.Context) { pgkit.DropPool(pool) }}, pool}
}

func (d pgxDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return d.run(ctx, func() error { return pgxSession{d.pool}.query(ctx, statement, d.args(args), each) })
}

func (d pgxDatabase) change(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return d.query(ctx, statement, args, each)
}

// beginBounded begins a transaction and bounds it, in one round trip.
var beginBounded = pgx.TxOptions{BeginQuery: "begin isolation level read committed; " + postgresStep}

func (d pgxDatabase) transact(ctx context.Context, bounded bool, do func(session, pgx.Tx) error) error {
	return d.run(ctx, func() error {
		options := beginBounded
		if bounded {
			options = pgx.TxOptions{IsoLevel: pgx.ReadCommitted}
		}
		tx, err := d.pool.BeginTx(ctx, options)
		if err != nil {
			return err
		}
		return attempt(func() error { return do(pooledSession{d.postgresPool, pgxSession{tx}}, tx) },
			func() error {
				if tx.Conn().PgConn().TxStatus() == 'I' { // COMMIT would report a success
					_ = tx.Rollback(ctx)
					return pgx.ErrTxClosed
				}
				return tx.Commit(ctx)
			},
			func() error {
				ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), rollbackTimeout)
				defer cancel()
				return tx.Rollback(ctx)
			})
	})
}

// rollbackTimeout bounds the wait for a rollback. After that the connection is closed, which also rolls
// back.
const rollbackTimeout = 5 * time.Second
