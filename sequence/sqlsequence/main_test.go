package sqlsequence

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/distributedleasing/leasing/sequence/sequencetest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	asWriter()
	goleak.VerifyTestMain(m)
}

// postgresURL is the URL of a superuser.
func postgresURL(t testing.TB) string {
	t.Helper()
	return servertest.Require(t, "LEASING_TEST_POSTGRES")
}

var schemas atomic.Int64

// newSchema returns the name of a new schema, and drops the schema at the end of the test.
func newSchema(t testing.TB) string {
	schema := fmt.Sprintf("seq_%d_%d_%d", os.Getpid(), time.Now().UnixMilli(), schemas.Add(1))
	t.Cleanup(func() { execPostgres(t, "DROP SCHEMA IF EXISTS "+schema+" CASCADE") })
	return schema
}

func execPostgres(t testing.TB, statements ...string) {
	t.Helper()
	conn, err := pgx.Connect(context.Background(), postgresURL(t))
	require.NoError(t, err)
	defer conn.Close(context.Background())
	for _, statement := range statements {
		_, err := conn.Exec(context.Background(), statement)
		require.NoError(t, err, statement)
	}
}

// migrated makes the tables, and closes the store at the end of the test.
func migrated[Tx any](t testing.TB, s *Store[Tx], err error) *Store[Tx] {
	t.Helper()
	require.NoError(t, err)
	require.NoError(t, s.Migrate(context.Background()))
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

// sqlite is a file with a table of the application. Every store opens the file separately, like
// another process.
type sqlite struct {
	path string
	sync string // PRAGMA synchronous; default normal
	db   *sql.DB
}

func newSqlite(t testing.TB) *sqlite {
	s := &sqlite{path: filepath.Join(t.TempDir(), "sequence #1.db")}
	s.db = s.open(t)
	_, err := s.db.Exec(`CREATE TABLE own (row TEXT PRIMARY KEY)`)
	require.NoError(t, err)
	return s
}

func (s *sqlite) connect() (*sql.DB, error) {
	name := (&url.URL{Scheme: "file", OmitHost: true, Path: s.path, RawQuery: "_pragma=busy_timeout(60000)&_pragma=journal_mode(wal)&_pragma=synchronous(" + cmp.Or(s.sync, "normal") + ")"}).String()
	return driver.Open(name)
}

func (s *sqlite) open(t testing.TB) *sql.DB {
	db, err := s.connect()
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	return db
}

func (s *sqlite) Open(t testing.TB) sequence.Store[*sql.Tx] {
	store, err := OpenSQLite(s.open(t), Options{Audit: true})
	return migrated(t, store, err)
}

func (s *sqlite) Insert(ctx context.Context, tx *sql.Tx, row string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO own VALUES (?1)`, row)
	return err
}

func (s *sqlite) Rows(t testing.TB) []string { return ownRows(t, s.db, "own") }

func ownRows(t testing.TB, db *sql.DB, table string) (all []string) {
	t.Helper()
	rows, err := db.QueryContext(context.Background(), `SELECT row FROM `+table)
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var row string
		require.NoError(t, rows.Scan(&row))
		all = append(all, row)
	}
	require.NoError(t, rows.Err())
	return all
}

// postgres is a schema with a table of the application.
type postgres struct {
	schema string
	db     *sql.DB
}

func newPostgres(t testing.TB) *postgres {
	p := &postgres{schema: newSchema(t)}
	config, err := pgx.ParseConfig(postgresURL(t))
	require.NoError(t, err)
	p.db = stdlib.OpenDB(*config)
	p.db.SetMaxOpenConns(8)
	t.Cleanup(func() { require.NoError(t, p.db.Close()) })
	execPostgres(t, "CREATE SCHEMA "+p.schema, "CREATE TABLE "+p.schema+".own (row TEXT PRIMARY KEY)")
	return p
}

func (p *postgres) HintsOtherProcesses() bool  { return true }
func (p *postgres) Rows(t testing.TB) []string { return ownRows(t, p.db, p.schema+".own") }

func (p *postgres) Open(t testing.TB) sequence.Store[*sql.Tx] {
	store, err := OpenPostgres(p.db, Options{Schema: p.schema, Audit: true})
	return migrated(t, store, err)
}

func (p *postgres) Insert(ctx context.Context, tx *sql.Tx, row string) error {
	_, err := tx.ExecContext(ctx, `INSERT INTO `+p.schema+`.own VALUES ($1)`, row)
	return err
}

// pool is a postgres that is accessed through a pgx pool, where transactions are serializable by default.
type pool struct {
	*postgres
	pool *pgxpool.Pool
}

func newPool(t testing.TB) *pool {
	p := &pool{postgres: newPostgres(t)}
	config, err := pgxpool.ParseConfig(postgresURL(t))
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	p.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(p.pool.Close)
	return p
}

func (p *pool) Open(t testing.TB) sequence.Store[pgx.Tx] {
	store, err := OpenPool(p.pool, Options{Schema: p.schema, Audit: true})
	return migrated(t, store, err)
}

func (p *pool) Insert(ctx context.Context, tx pgx.Tx, row string) error {
	_, err := tx.Exec(ctx, `INSERT INTO `+p.schema+`.own VALUES ($1)`, row)
	return err
}

func TestConformance_sqlite(t *testing.T) {
	t.Parallel()
	sequencetest.Run(t, sequencetest.Harness[*sql.Tx]{New: func(t testing.TB) sequencetest.Database[*sql.Tx] { return newSqlite(t) }})
}

func TestConformance_postgres(t *testing.T) {
	t.Parallel()
	sequencetest.Run(t, sequencetest.Harness[*sql.Tx]{New: func(t testing.TB) sequencetest.Database[*sql.Tx] { return newPostgres(t) }})
}

func TestConformance_postgres_pool(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	sequencetest.Run(t, sequencetest.Harness[pgx.Tx]{New: func(t testing.TB) sequencetest.Database[pgx.Tx] { return newPool(t) }})
}

// A pool of one connection is enough.
func TestAPoolOfOneConnection_sqlite(t *testing.T) {
	s := newSqlite(t)
	db := s.open(t)
	db.SetMaxOpenConns(1)
	opened, err := OpenSQLite(db, Options{})
	store := migrated(t, opened, err)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, store.CreateStream(ctx, "s"))
	e, err := store.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: "a", Duration: time.Minute})
	require.NoError(t, err)
	_, err = store.Commit(ctx, seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, s.insertOp)
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, s.Rows(t))
}

func TestTheFirstDecisionIsKept_sqlite(t *testing.T) {
	s := newSqlite(t)
	db := s.open(t)
	opened, err := OpenSQLite(db, Options{})
	store := migrated(t, opened, err)
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	require.NoError(t, store.Enqueue(t.Context(), sequence.ManualItem{Stream: "s", Seq: 3, Op: "op", Reason: "why"}))
	items, err := store.Manual(t.Context(), "s", 1)
	require.NoError(t, err)
	require.Len(t, items, 1)
	require.NoError(t, store.ResolveManual(t.Context(), items[0].ID, "ann"))
	require.NoError(t, store.ResolveManual(t.Context(), items[0].ID, "bob"))
	var by string
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT resolved_by FROM sequence_manual").Scan(&by))
	require.Equal(t, "ann", by)
}

// Numbers that are issued together are complete: each operation has one number, and an operation that already had
// a number keeps that number.
func TestLeasesShareAStatement_postgres(t *testing.T) {
	p := newPool(t)
	store := p.Open(t).(*Store[pgx.Tx])
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, store.CreateStream(ctx, "s"))
	ops := func(ids ...string) (all []*numberRequest) {
		for _, id := range ids {
			all = append(all, &numberRequest{Op: id, Kind: "kind of " + id, For: micros(time.Minute), stream: "s"})
		}
		return all
	}
	numbers := func(all []*numberRequest) (seqs []int64) {
		store.issueAll(ctx, all, false)
		for _, l := range all {
			require.NoError(t, l.Err())
			seqs = append(seqs, l.entry.Seq)
		}
		return seqs
	}
	require.Equal(t, []int64{1, 2, 3}, numbers(ops("a", `b"\\é`, "c")))
	require.Equal(t, []int64{4, 0, 5}, numbers(ops("d", "a", "e")), "one stands in its own way, and not in the others'")
	unknown := ops("f", "g")
	for _, l := range unknown {
		l.stream = "unknown"
	}
	require.Equal(t, []int64{0, 0}, numbers(unknown))
	_, err := store.EnterRecovery(ctx, "s", time.Minute)
	require.NoError(t, err)
	together := ops("h", "i")
	require.Equal(t, []int64{6, 7}, numbers(together))
	for _, l := range together {
		require.Equal(t, 2*time.Minute, l.entry.ExpiresAt.Sub(l.entry.LeasedAt), "recovery mode doubles")
		e, err := store.Find(ctx, "s", l.Op)
		require.NoError(t, err)
		require.Equal(t, l.entry.Seq, e.Seq)
		require.Equal(t, l.Kind, e.Kind)
		require.Equal(t, l.entry.ExpiresAt, e.ExpiresAt)
	}
	status, err := store.Status(ctx, "s")
	require.NoError(t, err)
	require.Equal(t, int64(7), status.Last, "no hole")
}

// Waiting statements join the transaction of the writer whose turn it is, and do not share that writer's
// failure.
func TestStatementsShareATransaction_sqlite(t *testing.T) {
	for _, own := range []error{nil, errors.New("the caller's own")} {
		s := newSqlite(t)
		opened, err := OpenSQLite(s.open(t), Options{})
		store := migrated(t, opened, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		require.NoError(t, store.CreateStream(ctx, "s"))
		lease := func(ctx context.Context, op string) (sequence.Entry, error) {
			return store.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: op, Duration: time.Minute})
		}
		first, err := lease(ctx, "first")
		require.NoError(t, err)
		const others = 8
		db := store.on.(*sqliteDatabase)
		waiting := func() int {
			db.mu.Lock()
			defer db.mu.Unlock()
			return len(db.waiting)
		}
		var group sync.WaitGroup
		leaving, leave := context.WithCancel(ctx)
		_, err = store.Commit(ctx, seqstore.CommitRequest{Stream: "s", Seq: first.Seq, Token: first.Token}, func(inner context.Context, tx *sql.Tx, e sequence.Entry) error {
			for i := range others {
				group.Go(func() {
					_, err := lease(ctx, fmt.Sprint("other", i))
					assert.NoError(t, err)
				})
			}
			left := make(chan error, 1)
			go func() { _, err := lease(leaving, "leaves"); left <- err }()
			assert.Eventually(t, func() bool { return waiting() == others+1 }, time.Minute, time.Millisecond)
			leave()
			assert.ErrorIs(t, <-left, context.Canceled)
			return errors.Join(s.insertOp(inner, tx, e), own)
		})
		require.ErrorIs(t, err, own)
		if own == nil {
			require.Zero(t, waiting(), "they shared the transaction")
		}
		group.Wait()
		status, err := store.Status(ctx, "s")
		require.NoError(t, err)
		require.Equal(t, int64(1+others), status.Last, "who has left took no number")
		rows := 1
		if own != nil {
			rows = 0
		}
		require.Len(t, s.Rows(t), rows)
	}
}

// insertOp writes the operation's ID.
func (s *sqlite) insertOp(ctx context.Context, tx *sql.Tx, e sequence.Entry) error {
	return s.Insert(ctx, tx, e.Op)
}
