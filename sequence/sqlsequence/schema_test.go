package sqlsequence

import (
	"context"
	"database/sql"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit/batch"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestTablesThatAreMissingOrForeignAreReported_sqlite(t *testing.T) {
	s := newSqlite(t)
	store, err := OpenSQLite(s.db, Options{})
	require.NoError(t, err)
	err = store.CreateStream(t.Context(), "s")
	require.ErrorIs(t, err, leasing.ErrNotSetUp)
	require.ErrorContains(t, err, "call Migrate")
	_, err = s.db.Exec("CREATE TABLE mine_entry (x TEXT)")
	require.NoError(t, err)
	foreign, err := OpenSQLite(s.db, Options{Prefix: "mine_"})
	require.NoError(t, err)
	require.ErrorIs(t, foreign.Migrate(t.Context()), leasing.ErrNotSetUp)
	require.NoError(t, store.Migrate(t.Context()))
	require.NoError(t, store.Migrate(t.Context()))
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	_, err = s.db.Exec("UPDATE sequence_version SET version = 99")
	require.NoError(t, err)
	newer, err := OpenSQLite(s.db, Options{})
	require.NoError(t, err)
	require.ErrorContains(t, newer.CreateStream(t.Context(), "s"), "version 99")
	for _, o := range []Options{{Schema: "x"}, {Prefix: "A b"}} {
		_, err = OpenSQLite(s.db, o)
		require.ErrorIs(t, err, leasing.ErrInvalid)
	}
}

func TestProcessesThatMigrateTogether(t *testing.T) {
	for name, open := range map[string]func(t *testing.T) func() *Store[*sql.Tx]{
		"sqlite": func(t *testing.T) func() *Store[*sql.Tx] {
			s := newSqlite(t)
			return func() *Store[*sql.Tx] { store, _ := OpenSQLite(s.open(t), Options{}); return store }
		},
		"postgres": func(t *testing.T) func() *Store[*sql.Tx] {
			p := newPostgres(t)
			return func() *Store[*sql.Tx] { store, _ := OpenPostgres(p.db, Options{Schema: p.schema}); return store }
		},
	} {
		t.Run(name, func(t *testing.T) {
			again := open(t)
			var group sync.WaitGroup
			for range 5 {
				store := again()
				group.Go(func() {
					assert.NoError(t, store.Migrate(context.Background()))
					assert.NoError(t, store.CreateStream(context.Background(), "s"))
				})
				t.Cleanup(func() { require.NoError(t, store.Close()) })
			}
			group.Wait()
		})
	}
}

// The audit can be turned on later.
func TestTheAuditIsAddedToTablesThatAreThere(t *testing.T) {
	s, p := newSqlite(t), newPostgres(t)
	for name, open := range map[string]func(audit bool) (*Store[*sql.Tx], error){
		"sqlite": func(audit bool) (*Store[*sql.Tx], error) { return OpenSQLite(s.open(t), Options{Audit: audit}) },
		"postgres": func(audit bool) (*Store[*sql.Tx], error) {
			return OpenPostgres(p.db, Options{Schema: p.schema, Audit: audit})
		},
	} {
		opened, err := open(false)
		without := migrated(t, opened, err)
		require.NoError(t, without.CreateStream(t.Context(), "s"), name)
		_, err = without.Events(t.Context(), "s", 1, 1)
		require.ErrorIs(t, err, leasing.ErrUnsupported, name)
		require.ErrorContains(t, err, "Options.Audit", name)
		with, err := open(true)
		require.NoError(t, err)
		require.ErrorIs(t, with.CreateStream(t.Context(), "s"), leasing.ErrNotSetUp, name)
		with = migrated(t, with, nil)
		_, err = without.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "a", Duration: time.Minute})
		require.NoError(t, err, name)
		events, err := with.Events(t.Context(), "s", 1, 1)
		require.NoError(t, err, name)
		require.Len(t, events, 1, name)
	}
}

// A role that may not create tables gets the statements to run, and afterwards has all necessary permissions.
func TestLeastRights_postgres(t *testing.T) {
	p := newPostgres(t)
	role := "seq_role_" + p.schema
	execPostgres(t, "CREATE ROLE "+role+" LOGIN PASSWORD 'x'", "GRANT USAGE ON SCHEMA "+p.schema+" TO "+role)
	t.Cleanup(func() { execPostgres(t, "DROP SCHEMA IF EXISTS "+p.schema+" CASCADE", "DROP ROLE "+role) })
	u, err := url.Parse(postgresURL(t))
	require.NoError(t, err)
	u.User = url.UserPassword(role, "x")
	config, err := pgx.ParseConfig(u.String())
	require.NoError(t, err)
	db := stdlib.OpenDB(*config)
	defer db.Close()
	store, err := OpenPostgres(db, Options{Schema: p.schema, Audit: true})
	require.NoError(t, err)
	defer store.Close()
	setup := (*SetupError)(nil)
	require.ErrorAs(t, store.Migrate(t.Context()), &setup)
	require.Equal(t, role, setup.Role)
	execPostgres(t, setup.Statements...)
	require.NoError(t, store.Migrate(t.Context()))
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "a", Duration: time.Minute})
	require.NoError(t, err)
	_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, nil)
	require.NoError(t, err)
	require.NoError(t, store.Enqueue(t.Context(), sequence.ManualItem{Stream: "s", Seq: 1, Op: "a"}))
	_, err = store.Seal(t.Context(), "s", 0)
	require.NoError(t, err)
	n, err := store.Forget(t.Context(), "s", 1, 1)
	require.NoError(t, err)
	require.Equal(t, 1, n)
}

// A commit whose write outlasts its lease does not block the lease of another number while a cleaner waits for
// the commit.
func TestASlowCommitHoldsNobodyUp_postgres(t *testing.T) {
	p := newPostgres(t)
	store := p.Open(t)
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	slow, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "slow", Duration: time.Second / 2})
	require.NoError(t, err)
	claimed := make(chan bool, 1)
	_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: slow.Seq, Token: slow.Token}, func(ctx context.Context, _ *sql.Tx, _ sequence.Entry) error {
		<-time.After(time.Second)
		go func() {
			_, ok, err := store.Claim(context.Background(), seqstore.ClaimRequest{Stream: "s", Duration: time.Minute})
			assert.NoError(t, err)
			claimed <- ok
		}()
		<-time.After(500 * time.Millisecond) // by now the cleaner waits
		ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		_, err := store.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: "other", Duration: time.Minute})
		return err
	})
	require.NoError(t, err)
	require.False(t, <-claimed)
}

// A commit whose transaction holds the lock of its entry doesn't wait for the counter, which a cleaner may hold while it waits
// for a row of the caller.
func TestACommitWaitsForNoCounter_postgres(t *testing.T) {
	p := newPostgres(t)
	store := p.Open(t).(*Store[*sql.Tx])
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for op, write := range map[string]sequence.Write[*sql.Tx]{
		"bare": nil, "own": func(ctx context.Context, tx *sql.Tx, e sequence.Entry) error { return p.Insert(ctx, tx, e.Op) },
	} {
		e, err := store.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: op, Duration: time.Minute})
		require.NoError(t, err)
		require.NoError(t, store.within(ctx, false, func(on session, _ *sql.Tx) error {
			_, err := store.lock(ctx, on, "s")
			require.NoError(t, err)
			_, leased, err := store.CommitAndLease(ctx, seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, seqstore.LeaseRequest{Stream: "s", Op: op + " next", Duration: time.Minute}, write)
			require.NoError(t, err)
			require.Zero(t, leased, op)
			return nil
		}))
		found, err := store.Find(ctx, "s", op)
		require.NoError(t, err)
		require.Equal(t, sequence.Committed, found.State)
	}
	require.Equal(t, []string{"own"}, p.Rows(t))
	status, err := store.Status(ctx, "s")
	require.NoError(t, err)
	require.Equal(t, int64(2), status.Watermark, "no hole")
	require.Equal(t, int64(4), leasesWithCommit(t, store).Seq)
}

// If the context of a caller ends while a batch with its lease request is in flight, the caller does not read the reply.
func TestACallerLeavesALeaseUnderWay_sqlite(t *testing.T) {
	store := newSqlite(t).Open(t).(*Store[*sql.Tx])
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	ctx, cancel := context.WithCancel(t.Context())
	left, done := make(chan struct{}), make(chan struct{})
	store.leases = batch.New(func(_ context.Context, all []*numberRequest, _ bool) {
		defer close(done)
		cancel()
		for {
			select {
			case <-left:
				return
			default:
				all[0].entry.Seq++ // like an answer that comes while the caller leaves
			}
		}
	}, 0)
	e, err := store.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: "left", Duration: time.Minute})
	close(left)
	require.ErrorIs(t, err, context.Canceled)
	require.Zero(t, e)
	<-done
}

// leasesWithCommit commits a number without a write of the caller, and returns the next number, which
// the commit has leased.
func leasesWithCommit(t *testing.T, store *Store[*sql.Tx]) sequence.Entry {
	e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "last", Duration: time.Minute})
	require.NoError(t, err)
	_, leased, err := store.CommitAndLease(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, seqstore.LeaseRequest{Stream: "s", Op: "with the commit", Duration: time.Minute}, nil)
	require.NoError(t, err)
	return leased
}

// After its wait for the row, the claiming statement checks the number a second time, since the number may
// have been committed during the wait.
func TestTrap_S01_TheClaimLooksAgain_postgres(t *testing.T) {
	p := newPostgres(t)
	store := p.Open(t).(*Store[*sql.Tx])
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "a", Duration: time.Second / 2})
	require.NoError(t, err)
	claimed := make(chan bool, 1)
	_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, func(context.Context, *sql.Tx, sequence.Entry) error {
		<-time.After(time.Second)
		go func() {
			_, found, err := queryEntry(context.Background(), store.on, store.sql.claim, "s", "cleaner", int64(1), e.Seq, "")
			assert.NoError(t, err)
			claimed <- found
		}()
		<-time.After(500 * time.Millisecond) // the statement has found the number, and waits
		return nil
	})
	require.NoError(t, err)
	require.False(t, <-claimed, "a number that was committed was claimed")
}

// If another process has locked the file, a request fails with ErrThrottled.
func TestALockedFileIsThrottled_sqlite(t *testing.T) {
	s := newSqlite(t)
	store := s.Open(t).(*Store[*sql.Tx])
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	db, err := sql.Open("sqlite3", (&url.URL{Scheme: "file", OmitHost: true, Path: s.path, RawQuery: "_pragma=busy_timeout(1)"}).String())
	require.NoError(t, err)
	defer db.Close()
	impatient, err := OpenSQLite(db, Options{})
	require.NoError(t, err)
	defer impatient.Close()
	tx, err := s.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	defer tx.Rollback()
	_, err = tx.ExecContext(t.Context(), "INSERT INTO own VALUES ('x')")
	require.NoError(t, err)
	_, err = impatient.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "a", Duration: time.Minute})
	require.ErrorIs(t, err, leasing.ErrThrottled)
}
