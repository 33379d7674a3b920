package sqlitelease

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"net/url"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/sqlkit"
	"github.com/ncruces/go-sqlite3"
	sqlitedriver "github.com/ncruces/go-sqlite3/driver"
	"golang.org/x/sync/semaphore"
)

// sqliteDatabase serialises the writers of this process and keeps their
// connection, if the database is our own.
type sqliteDatabase struct {
	*sql.DB
	path    string                                       // of our own file, as given
	oneHost bool                                         // no other host uses the file
	open    func(context.Context) (*sqlite3.Conn, error) // opens a connection of our own; nil on an application's database
	lock    *semaphore.Weighted                          // has one place. Goroutines queue here, at no cost, since the lock of the file can only be polled
	writer  sqliteWriter                                 // guarded by lock; nil until needed, and always nil on an application's database
	burst   writeBurst
	opened  atomic.Pointer[sqliteFile] // nil until the file is found
}

// readers bounds the connections of our own that may read beside the writer.
const readers = 4

// openSqlite makes a database of our own. It doesn't touch the file.
func openSqlite(path string, synchronous string, oneHost bool) (*sqliteDatabase, error) {
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: path}).String()
	d := &sqliteDatabase{path: path, oneHost: oneHost, lock: semaphore.NewWeighted(1)}
	if err := verifyDisk(path, oneHost); err != nil {
		return nil, err
	}
	setUp := func(conn *sqlite3.Conn) error {
		if err := verifyDisk(path, oneHost); err != nil { // before the log is opened: on a network disk the log's index may end the process (SIGBUS)
			return err
		}
		if err := conn.BusyHandler(d.burst.busy); err != nil {
			return err
		}
		if err := useWAL(conn); err != nil {
			return err
		}
		return conn.Exec("PRAGMA synchronous = " + synchronous)
	}
	var err error
	if d.DB, err = sqlitedriver.Open(name, setUp); err != nil {
		return nil, err
	}
	d.SetMaxOpenConns(readers)
	d.SetMaxIdleConns(readers)
	d.open = func(ctx context.Context) (*sqlite3.Conn, error) {
		conn, err := sqlite3.OpenContext(ctx, name)
		if err != nil {
			return nil, err
		}
		defer conn.SetInterrupt(conn.SetInterrupt(ctx))
		if err := setUp(conn); err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		return conn, nil
	}
	return d, nil
}

// useWAL puts a file in WAL mode permanently. When processes open a new file at the same moment,
// SQLite refuses the change without calling the busy handler, since two processes with read locks
// could wait for each other endlessly (sqlite.org/c3ref/busy_handler.html).
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

// verifyFile checks that the path still leads to the file that this process has open. The first call also checks that
// the file has only one name.
func (d *sqliteDatabase) verifyFile(ctx context.Context) error {
	if file := d.opened.Load(); file != nil {
		return file.verify()
	}
	file, err := findFile(ctx, d, d.path, d.oneHost)
	if err == nil {
		d.opened.CompareAndSwap(nil, file)
	}
	return err
}

// write runs the function do in a transaction that holds the write lock from its beginning. If do
// or COMMIT fails, write rolls the transaction back.
func (d *sqliteDatabase) write(ctx context.Context, do func(dialect.Statements) error) error {
	if !d.lock.TryAcquire(1) { // TryAcquire first: unlike Acquire it does not make ctx allocate its channel
		if err := d.lock.Acquire(ctx, 1); err != nil {
			return err
		}
	}
	defer d.lock.Release(1)
	d.burst.begin(ctx)
	defer d.burst.end()
	w, err := d.connect(ctx)
	if err != nil {
		return err
	}
	healthy := false
	defer func() { d.release(w, healthy) }()
	if err := w.exec(ctx, "BEGIN IMMEDIATE"); err != nil {
		_ = w.exec(context.Background(), "ROLLBACK") // drivers may report an interrupt after the transaction has begun
		healthy = sqlkit.SQLite(err).Class == providerkit.Refused || ctx.Err() != nil
		return err
	}
	if err = d.opened.Load().verify(); err == nil {
		err = do(w)
	}
	if err == nil {
		err = w.exec(ctx, "COMMIT")
	}
	healthy = err == nil || w.exec(context.Background(), "ROLLBACK") == nil && !sqlkit.SQLite(err).Close
	return err
}

// connect returns the writer's connection, or a connection of the application's pool for this write
// only, so that a pool of one isn't blocked.
func (d *sqliteDatabase) connect(ctx context.Context) (sqliteWriter, error) {
	if d.open == nil {
		conn, err := d.Conn(ctx)
		return borrowedConn{conn}, err
	}
	if d.writer == nil {
		conn, err := d.open(ctx)
		if err != nil {
			return nil, err
		}
		d.writer = &sqliteSession{conn: conn, prepared: make(map[string]*sqlite3.Stmt)}
	}
	return d.writer, nil
}

// release keeps our own connection, or returns an application's connection to its pool. An unhealthy connection is closed.
func (d *sqliteDatabase) release(w sqliteWriter, healthy bool) {
	if !healthy || d.open == nil {
		d.writer = nil
		w.close(healthy)
	}
}

// borrowedConn is a connection of the application's pool.
type borrowedConn struct{ *sql.Conn }

func (l borrowedConn) exec(ctx context.Context, statement string) error {
	_, err := l.ExecContext(ctx, statement)
	return err
}

func (l borrowedConn) Query(ctx context.Context, statement string, args []any, each func(dialect.Scan) error) error {
	return dialect.ViaSQL{Querier: l.Conn}.Query(context.WithoutCancel(ctx), statement, args, each)
}

func (l borrowedConn) close(healthy bool) {
	if !healthy {
		_ = l.Raw(func(any) error { return sqldriver.ErrBadConn }) // makes the pool close it
	}
	l.Conn.Close()
}

// close waits for the write in flight, which its context bounds. Later writes fail.
func (d *sqliteDatabase) close() error {
	if d.open == nil {
		return nil
	}
	_ = d.lock.Acquire(context.Background(), 1) // the context never ends
	defer d.lock.Release(1)
	if d.writer != nil {
		d.release(d.writer, false)
	}
	d.open = func(context.Context) (*sqlite3.Conn, error) { return nil, abstractions.ErrClosed }
	return d.DB.Close()
}
