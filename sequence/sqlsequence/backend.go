package sqlsequence

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// scan reads the columns of one row.
type scan func(dest ...any) error

// session runs statements: in a transaction, or each by itself.
type session interface {
	query(ctx context.Context, statement string, args []any, each func(scan) error) error
}

// backend is the way to a database. change runs one statement that changes something, in a transaction
// of its own. transact runs do in a transaction, and commits it if do returns nil.
type backend[Tx any] interface {
	session
	change(ctx context.Context, statement string, args []any, each func(scan) error) error
	transact(ctx context.Context, do func(on session, tx Tx) error) error
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

// rows are those of package sql, or of pgx.
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

// postgresPool lets PostgreSQL's errors decide about the application's connections.
type postgresPool struct {
	forgets *atomic.Bool // prepared statements; nil if the driver is not pgx
	drop    func(context.Context)
}

// args are those of a statement. Where prepared statements are forgotten they say that it is sent whole.
func (p postgresPool) args(args []any) []any {
	if p.forgets == nil || !p.forgets.Load() {
		return args
	}
	return append([]any{pgx.QueryExecModeExec}, args...)
}

// run calls a function, and judges its error.
func (p postgresPool) run(ctx context.Context, do func() error) error {
	err := do()
	if err == nil {
		return nil
	}
	verdict := sqlkit.Postgres(err)
	if verdict.Unprepared && p.forgets != nil {
		p.forgets.Store(true)
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
	d := sqlDatabase{postgresPool{drop: func(ctx context.Context) { sqlkit.DropDB(ctx, db) }}, db}
	if sqlkit.ListenLike(db) != nil {
		d.forgets = new(atomic.Bool)
	}
	return d
}

func (d sqlDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return d.run(ctx, func() error { return sqlSession{d.db}.query(ctx, statement, d.args(args), each) })
}

func (d sqlDatabase) change(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return d.query(ctx, statement, args, each)
}

func (d sqlDatabase) transact(ctx context.Context, do func(session, *sql.Tx) error) error {
	return d.run(ctx, func() error {
		return transact(ctx, d.db, &sql.TxOptions{Isolation: sql.LevelReadCommitted}, func(on session, tx *sql.Tx) error {
			return do(pooledSession{d.postgresPool, on}, tx)
		})
	})
}

// pooledSession is a transaction of PostgreSQL's.
type pooledSession struct {
	pool postgresPool
	session
}

func (s pooledSession) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return s.session.query(ctx, statement, s.pool.args(args), each)
}

// beginner is a *sql.DB or *sql.Conn.
type beginner interface {
	BeginTx(ctx context.Context, options *sql.TxOptions) (*sql.Tx, error)
}

func transact(ctx context.Context, db beginner, options *sql.TxOptions, do func(session, *sql.Tx) error) error {
	tx, err := db.BeginTx(ctx, options)
	if err != nil {
		return err
	}
	defer tx.Rollback() // does nothing after Commit
	if err := do(sqlSession{tx}, tx); err != nil {
		return err
	}
	return tx.Commit()
}

// sqliteDatabase lets the writers of this process queue here, and not at the lock of the file, which can only be polled. Single
// statements that wait go along in the transaction of the writer whose turn it is.
type sqliteDatabase struct {
	db       *sql.DB
	turn     chan struct{} // of one place
	prepared sync.Map      // from a statement to *sql.Stmt: SQLite takes longer to read ours than to run them

	mu      sync.Mutex
	waiting []*passenger
}

// prepare prepares statements. It is called outside of transactions, since it may take a connection.
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
			_ = prepared.Close() //nolint:sqlclosecheck // it is kept, unless another call has kept its own
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

// query runs a statement that reads. In WAL mode it waits for nobody.
func (d *sqliteDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return sqliteSession{d, nil}.query(ctx, statement, args, each)
}

// passenger is a statement that waits for its turn. Whoever has taken it from the queue sets err and closes done.
type passenger struct {
	statement string
	args      []any
	each      func(scan) error
	err       error
	done      chan struct{}
}

// change needs no BEGIN if nobody else waits: a statement that writes takes the file's lock at its beginning, and has
// committed when its rows have been read.
func (d *sqliteDatabase) change(ctx context.Context, statement string, args []any, each func(scan) error) error {
	p := &passenger{statement: statement, args: args, each: each, done: make(chan struct{})}
	d.mu.Lock()
	d.waiting = append(d.waiting, p)
	d.mu.Unlock()
	select {
	case d.turn <- struct{}{}:
		defer func() { <-d.turn }()
	case <-p.done:
	case <-ctx.Done():
	}
	waited, others := d.leave(p)
	switch {
	case !waited:
		<-p.done // soon: the file is locked already
		return p.err
	case ctx.Err() != nil:
		return ctx.Err()
	case !others:
		return d.query(ctx, statement, args, each)
	}
	return d.drive(ctx, func(s session, _ *sql.Tx) error { return s.query(ctx, statement, args, each) })
}

func (d *sqliteDatabase) transact(ctx context.Context, do func(session, *sql.Tx) error) error {
	select {
	case d.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-d.turn }()
	return d.drive(ctx, do)
}

// leave takes a passenger from the queue. It reports whether he was there, and not taken along, and whether others are.
func (d *sqliteDatabase) leave(p *passenger) (waited, others bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if i := slices.Index(d.waiting, p); i >= 0 {
		d.waiting, waited = slices.Delete(d.waiting, i, i+1), true
	}
	return waited, len(d.waiting) > 0
}

// drive runs a transaction, and takes along what waits once do has succeeded: then the file is locked, and nobody waits any more.
// They share the outcome. The context of the driver ends his own part only.
func (d *sqliteDatabase) drive(ctx context.Context, do func(session, *sql.Tx) error) (err error) {
	var along []*passenger
	defer func() {
		for _, p := range along {
			p.err = err
			close(p.done)
		}
	}()
	conn, err := d.db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return transact(context.WithoutCancel(ctx), conn, nil, func(_ session, tx *sql.Tx) error {
		s := sqliteSession{d, tx}
		if err := cmp.Or(do(s, tx), ctx.Err()); err != nil {
			return err
		}
		d.mu.Lock()
		along, d.waiting = d.waiting, nil
		d.mu.Unlock()
		for _, p := range along {
			if err := s.query(context.WithoutCancel(ctx), p.statement, p.args, p.each); err != nil {
				return err
			}
		}
		return nil
	})
}

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

// preparedQuerier runs one statement, whatever its text.
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
	return pgxDatabase{postgresPool{new(atomic.Bool), func(context.Context) { sqlkit.DropPool(pool) }}, pool}
}

func (d pgxDatabase) query(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return d.run(ctx, func() error { return pgxSession{d.pool}.query(ctx, statement, d.args(args), each) })
}

func (d pgxDatabase) change(ctx context.Context, statement string, args []any, each func(scan) error) error {
	return d.query(ctx, statement, args, each)
}

func (d pgxDatabase) transact(ctx context.Context, do func(session, pgx.Tx) error) error {
	return d.run(ctx, func() error {
		return pgx.BeginTxFunc(ctx, d.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			return do(pooledSession{d.postgresPool, pgxSession{tx}}, tx)
		})
	})
}
