package sqlitelease

import (
	"context"
	"database/sql"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/stretchr/testify/require"
)

// T33: a wait for the lock of the file ends with its context, or after Options.Timeout
// if the context has no deadline. Readers don't wait.
func TestTrap_T33_LockedFileEndsWithTheContext(t *testing.T) {
	open := database.New(t)
	p := open("timeout", "200ms")
	claim, err := p.Acquire(t.Context(), claimOf("n", time.Minute))
	require.NoError(t, err)
	conn := rawSqlite(t, p, "BEGIN IMMEDIATE")

	begun := time.Now()
	_, err = p.Renew(t.Context(), renewalOf(claim))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.Less(t, time.Since(begun), 10*time.Second/2, "it did not wait until the patience was at an end")

	ctx, cancel := context.WithCancel(bounded(t))
	time.AfterFunc(100*time.Millisecond, cancel)
	var waiters sync.WaitGroup
	for range 4 { // one waits for the file, the others for their turn
		waiters.Go(func() {
			_, err := p.Acquire(ctx, claimOf("m", time.Minute))
			require.ErrorIs(t, err, context.Canceled)
		})
	}
	waiters.Wait()

	record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.True(t, record.Held)

	require.NoError(t, conn.Exec("ROLLBACK"))
	_, err = p.Renew(bounded(t), renewalOf(claim))
	require.NoError(t, err)
	record, err = p.Inspect(t.Context(), abstractions.InspectRequest{Name: "m"})
	require.NoError(t, err)
	require.False(t, record.Held, "none of those who left got in")
}

// The lock is taken as soon as it becomes free, not at the end of a growing pause.
func TestLockIsTakenSoonAfterItIsFree(t *testing.T) {
	ctx, open := bounded(t), database.New(t)
	p := open()
	conn := rawSqlite(t, p, "BEGIN IMMEDIATE")
	acquired := make(chan error)
	go func() {
		_, err := p.Acquire(ctx, claimOf("n", time.Minute))
		acquired <- err
	}()
	select {
	case err := <-acquired:
		require.Fail(t, "got in beside the lock", err)
	case <-time.After(50 * time.Millisecond):
	}
	require.NoError(t, conn.Exec("ROLLBACK"))
	require.NoError(t, <-acquired)
}

// The application's own database may have a single connection, and a driver whose busy timeout
// ends before the context. The request is then refused as throttled.
func TestOwnSqliteDatabase(t *testing.T) {
	ctx := bounded(t)
	path := filepath.Join(t.TempDir(), "app.db")
	db, err := sql.Open("sqlite3", "file:"+path+"?_pragma=busy_timeout(100)&_pragma=journal_mode(wal)")
	require.NoError(t, err)
	defer db.Close()
	db.SetMaxOpenConns(1)
	p, err := Open(ctx, Options{DB: db, Create: true, Table: "locks"})
	require.NoError(t, err)

	claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	results, err := p.RenewBatch(ctx, []abstractions.RenewRequest{renewalOf(claim)})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	rows, err := db.QueryContext(ctx, "SELECT name FROM locks")
	require.NoError(t, err, "the connection came back")
	require.NoError(t, rows.Close())

	conn := rawSqlite(t, p, "BEGIN IMMEDIATE")
	_, err = p.Renew(ctx, renewalOf(claim))
	require.ErrorIs(t, err, abstractions.ErrThrottled)
	require.NoError(t, conn.Exec("ROLLBACK"))
	_, err = p.Renew(ctx, renewalOf(claim))
	require.NoError(t, err)

	require.NoError(t, p.Close())
	require.NoError(t, db.PingContext(ctx))
}

// A refused change does not affect the others in its transaction.
func TestTrap_T66_EachOfASharedTransactionIsDecidedByItself(t *testing.T) {
	p := database.New(t)()
	held, err := p.Acquire(bounded(t), claimOf("held", time.Minute))
	require.NoError(t, err)
	require.NoError(t, rawSqlite(t, p, `CREATE TRIGGER refuse BEFORE INSERT ON lease WHEN NEW.name = 'bad' BEGIN SELECT RAISE(ABORT, 'no'); END`).Close())
	s := backendOf(p)
	changes := map[string]*sqliteChange{}
	acquires := func(names ...string) (all []*sqliteChange) {
		for _, name := range names {
			req := claimOf(name, time.Minute)
			rule := func(r *dialect.Row) providerkit.Change { return r.Acquire(req) }
			changes[name] = &sqliteChange{name: name, id: req.ID, rule: rule}
			all = append(all, changes[name])
		}
		return all
	}
	all := acquires("good", "held", "gone", "better")
	changes["gone"].left.Store(true)
	s.applyMany(bounded(t), all, false)
	require.NoError(t, changes["good"].Err())
	require.NoError(t, changes["better"].Err())
	require.Equal(t, changes["good"].done.After.AcquiredAt, changes["better"].done.After.AcquiredAt, "one transaction")
	require.NoError(t, changes["held"].Err())
	require.ErrorIs(t, changes["held"].done.Err, abstractions.ErrHeld)

	s.applyMany(bounded(t), acquires("fine", "bad", "finer"), false)
	require.Error(t, changes["bad"].Err())
	require.NoError(t, changes["fine"].Err())
	require.NoError(t, changes["finer"].Err())
	for name, want := range map[string]bool{"good": true, "better": true, "gone": false, "fine": true, "bad": false, "finer": true} {
		record, err := p.Inspect(bounded(t), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.Equal(t, want, record.Held, name)
	}
	require.NoError(t, p.Release(bounded(t), releaseOf(held)))
}

// slowBackend is a backend whose renewals begin late.
type slowBackend struct {
	dialect.Backend
	begun, goOn chan struct{}
}

func (s *slowBackend) Renew(ctx context.Context, reqs []abstractions.RenewRequest, wait bool) ([]abstractions.RenewResult, error) {
	close(s.begun)
	<-s.goOn
	return s.Backend.Renew(ctx, reqs, wait)
}

func TestAChangeThatComesAfterCloseOpensNothing(t *testing.T) {
	ctx := bounded(t)
	p := openTest(t, "sqlite://"+filepath.Join(t.TempDir(), "leases.db"), nil)
	claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	late := &slowBackend{dialecttest.BackendOf(p), make(chan struct{}), make(chan struct{})}
	dialecttest.SetBackend(p, late)
	db := late.Backend.(*sqlite).db
	renewed, closed := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := p.Renew(ctx, renewalOf(claim))
		renewed <- err
	}()
	<-late.begun
	go func() { closed <- p.Close() }()
	require.Eventually(t, func() bool { return db.PingContext(ctx) != nil }, 20*time.Second, time.Millisecond)
	close(late.goOn)
	require.ErrorIs(t, <-renewed, abstractions.ErrClosed)
	require.NoError(t, <-closed)
	require.Nil(t, db.writer)
}
