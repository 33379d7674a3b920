package sqllease

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/ncruces/go-sqlite3"
	sqlitedriver "github.com/ncruces/go-sqlite3/driver"
)

// sqliteDatabase serialises the writers of this process and keeps their
// connection, if the database is our own.
type sqliteDatabase struct {
	*sql.DB
	own    bool
	lock   fairLock
	writer *sqliteWriter // guarded by lock; nil until needed, and on a user's database
	burst  writeBurst
	opened atomic.Pointer[sqliteFile] // nil until the file was found
}

// sqliteWriter is a connection with its prepared statements.
type sqliteWriter struct {
	*sql.Conn
	prepared map[string]*sql.Stmt // nil if statements are not worth keeping
}

// readers is how many connections of our own may read beside the writer.
const readers = 4

// openSqlite makes a database of our own. It doesn't touch the file.
func openSqlite(path string, synchronous string) (*sqliteDatabase, error) {
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()
	d := &sqliteDatabase{own: true, lock: newFairLock()}
	var err error
	d.DB, err = sqlitedriver.Open(name, func(conn *sqlite3.Conn) error {
		if err := conn.BusyHandler((&busyHandler{burst: &d.burst}).wait); err != nil {
			return err
		}
		if err := useWAL(conn); err != nil {
			return err
		}
		return conn.Exec("PRAGMA synchronous = " + synchronous)
	})
	if err != nil {
		return nil, err
	}
	d.SetMaxOpenConns(1 + readers)
	d.SetMaxIdleConns(1 + readers)
	return d, nil
}

// useWAL puts a file in WAL mode, for good. When processes open a new file at the
// same moment SQLite refuses the change without asking the busy handler, since it
// could wait for ever for a lock that it has half of (sqlite.org/c3ref/busy_handler.html).
func useWAL(conn *sqlite3.Conn) error {
	const tries, pause = 100, 20 * time.Millisecond
	for n := 1; ; n++ {
		err := conn.Exec("PRAGMA journal_mode = wal")
		if n == tries || !errors.Is(err, sqlite3.BUSY) {
			return err
		}
		<-time.After(pause)
	}
}

// write runs do in a transaction that holds the write lock from its beginning.
// If do fails, or COMMIT does, it is rolled back.
func (d *sqliteDatabase) write(ctx context.Context, urgent bool, do func(querier) error) error {
	if err := d.lock.lock(ctx, urgent); err != nil {
		return err
	}
	defer d.lock.unlock()
	d.burst.begin(ctx)
	defer d.burst.end()
	w, err := d.connect(ctx)
	if err != nil {
		return err
	}
	healthy := false
	defer func() { d.leave(w, healthy) }()
	if err := w.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		if !d.own { // other drivers may report an interrupt though it has begun
			_ = w.exec(context.WithoutCancel(ctx), "ROLLBACK")
		}
		healthy = sqliteClass(err) == providerkit.Refused || ctx.Err() != nil
		return err
	}
	// The lock is ours: what follows takes microseconds, and an interrupt
	// in the middle would only cost the work done. COMMIT asks ctx again.
	if err = d.opened.Load().verify(); err == nil {
		err = do(w)
	}
	if err == nil {
		err = w.exec(ctx, "COMMIT")
	}
	if err == nil {
		healthy = true
		return nil
	}
	healthy = w.exec(context.WithoutCancel(ctx), "ROLLBACK") == nil
	return err
}

// connect returns the writer's connection, or borrows one from the user's pool
// so that a pool of one isn't blocked.
func (d *sqliteDatabase) connect(ctx context.Context) (*sqliteWriter, error) {
	if d.writer != nil {
		return d.writer, nil
	}
	conn, err := d.Conn(ctx)
	if err != nil {
		return nil, err
	}
	w := &sqliteWriter{Conn: conn}
	if d.own {
		w.prepared = make(map[string]*sql.Stmt)
		d.writer = w
	}
	return w, nil
}

// leave keeps or gives back a connection. One whose state is in doubt is closed.
func (d *sqliteDatabase) leave(w *sqliteWriter, healthy bool) {
	if healthy && d.own {
		return
	}
	d.writer = nil
	for _, statement := range w.prepared {
		statement.Close()
	}
	if !healthy {
		_ = w.Raw(func(any) error { return sqldriver.ErrBadConn }) // tells the pool to close it
	}
	w.Close()
}

func (w *sqliteWriter) exec(ctx context.Context, statement string) error {
	_, err := w.ExecContext(ctx, statement)
	return err
}

// QueryContext runs a statement whatever becomes of ctx: see write.
func (w *sqliteWriter) QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	ctx = context.WithoutCancel(ctx)
	if w.prepared == nil {
		return w.Conn.QueryContext(ctx, statement, args...)
	}
	prepared := w.prepared[statement]
	if prepared == nil {
		var err error
		if prepared, err = w.PrepareContext(ctx, statement); err != nil {
			return nil, err
		}
		w.prepared[statement] = prepared
	}
	return prepared.QueryContext(ctx, args...)
}

// close waits for the writer under way, which its context bounds.
func (d *sqliteDatabase) close() error {
	if !d.own {
		return nil
	}
	if err := d.lock.lock(context.Background(), true); err != nil {
		return err
	}
	defer d.lock.unlock()
	if d.writer != nil {
		d.leave(d.writer, false)
	}
	return d.DB.Close()
}

// sqliteCode is the result code behind an error of ncruces' driver, or of one
// whose error has a Code method that returns an int, as modernc's has.
func sqliteCode(err error) (code int, ok bool) {
	var ours sqlite3.ExtendedErrorCode
	if errors.As(err, &ours) {
		return int(ours), true
	}
	var theirs interface{ Code() int }
	if errors.As(err, &theirs) {
		return theirs.Code(), true
	}
	return 0, false
}
