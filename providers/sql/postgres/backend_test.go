package postgreslease

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/distributedleasing/leasing/providers/sql/dialect/dialecttest"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// lockRow starts a transaction that locks the row of a name, until
// unlock commits the transaction.
func lockRow(t testing.TB, p *Provider, name, statement string) (unlock func()) {
	t.Helper()
	conn := connectPostgres(t)
	t.Cleanup(func() { conn.Close(context.Background()) }) // also if a later step fails: the schema is dropped afterwards
	tx, err := conn.Begin(bounded(t))
	require.NoError(t, err)
	tag, err := tx.Exec(bounded(t), inTables(p, statement), name)
	require.NoError(t, err)
	require.EqualValues(t, 1, tag.RowsAffected())
	var once sync.Once
	unlock = func() {
		once.Do(func() {
			require.NoError(t, tx.Commit(context.Background()))
			conn.Close(context.Background())
		})
	}
	t.Cleanup(unlock)
	return unlock
}

const justLock = "SELECT FROM {lease} WHERE name = $1 FOR UPDATE"

// waitBlocked waits until at least this many sessions wait for a lock in the provider's schema.
func waitBlocked(t testing.TB, p *Provider, sessions int) {
	t.Helper()
	b := backendOf(p)
	conn := connectPostgres(t)
	defer conn.Close(context.Background())
	require.Eventually(t, func() bool {
		var blocked int
		err := conn.QueryRow(context.Background(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1 || '%'", b.Tables.Schema).Scan(&blocked)
		require.NoError(t, err)
		return blocked >= sessions
	}, 20*time.Second, 5*time.Millisecond)
}

// T47: the clock is read when the row is locked, not when the statement or the
// transaction began.
func TestTrap_T47_ClockIsReadUnderTheLock(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p, store := open(), open()
	// clockAfter makes the call wait for the row, and returns the database's time just before
	// the row was unlocked.
	clockAfter := func(name string, call func()) time.Time {
		unlock := lockRow(t, p, name, justLock)
		var done sync.WaitGroup
		done.Go(call)
		waitBlocked(t, p, 1)
		record, err := store.Inspect(ctx, abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		unlock()
		done.Wait()
		return record.Now
	}

	old, err := store.Acquire(ctx, claimOf("taken", time.Hour))
	require.NoError(t, err)
	setBack(ctx, t, store, "taken", 2*time.Hour)
	var next abstractions.Grant
	before := clockAfter("taken", func() { next, err = store.Acquire(ctx, claimOf("taken", time.Minute)) })
	require.NoError(t, err)
	require.True(t, serverTime(t, next).After(before))
	exactly(t, time.Minute, next)
	require.GreaterOrEqual(t, next.Token, before.UnixMicro(), "the token too")
	require.Greater(t, next.Token, old.Token)

	var renewed abstractions.Grant
	before = clockAfter("taken", func() { renewed, err = store.Renew(ctx, renewalOf(next)) })
	require.NoError(t, err)
	require.True(t, serverTime(t, renewed).After(before))
	exactly(t, time.Minute, renewed)

	// The lease runs out before the lock is free, and the renewal must detect its end.
	short, err := store.Acquire(ctx, claimOf("short", 300*time.Millisecond))
	require.NoError(t, err)
	unlock := lockRow(t, p, "short", justLock)
	var done sync.WaitGroup
	done.Go(func() { _, err = store.Renew(ctx, renewalOf(short)) })
	waitBlocked(t, p, 1)
	waitExpired(ctx, t, store, "short")
	unlock()
	done.Wait()
	lostBecause(t, err, abstractions.LostExpired)
}

func waitExpired(ctx context.Context, t testing.TB, s *Provider, name string) {
	t.Helper()
	require.Eventually(t, func() bool {
		record, err := s.Inspect(ctx, abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		return !record.Held
	}, 20*time.Second, 10*time.Millisecond)
}

// A renewal that waited for a row sees and keeps the changes to the row.
func TestRenewalKeepsWhatHappenedWhileItWaited(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p, store := open(), open()
	claim, err := store.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)

	unlock := lockRow(t, p, "n", "UPDATE {lease} SET ended = '"+fmt.Sprintf(`\x%x`, dialect.EncodeEnded(providerkit.Ended{{ID: "somebody", At: 1}}, nil))+"', version = version + 1 WHERE name = $1")
	var done sync.WaitGroup
	done.Go(func() { _, err = store.Renew(ctx, renewalOf(claim)) })
	waitBlocked(t, p, 1)
	unlock()
	done.Wait()
	require.NoError(t, err)
	_, err = store.Acquire(ctx, abstractions.AcquireRequest{Name: "n", ID: "somebody", Owner: "o", TTL: time.Minute})
	require.ErrorIs(t, err, abstractions.ErrReleased)

	unlock = lockRow(t, p, "n", "UPDATE {lease} SET id = 'thief', token = token + 1, version = version + 1 WHERE name = $1")
	done.Go(func() { _, err = store.Renew(ctx, renewalOf(claim)) })
	waitBlocked(t, p, 1)
	unlock()
	done.Wait()
	lostBecause(t, err, abstractions.LostTaken)
}

// Contenders that waited for a row are refused if another claim has acquired the name.
func TestAcquireSeesWhoCameFirst(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p, store := open(), open()
	claim, err := store.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	err = store.Release(ctx, releaseOf(claim))
	require.NoError(t, err)

	unlock := lockRow(t, p, "n", "UPDATE {lease} SET id = 'first', expires_at = NULL, token = token + 1, version = version + 1 WHERE name = $1")
	var done sync.WaitGroup
	done.Go(func() { _, err = store.Acquire(ctx, claimOf("n", time.Minute)) })
	waitBlocked(t, p, 1)
	unlock()
	done.Wait()
	var held *abstractions.HeldError
	require.ErrorAs(t, err, &held)
	require.Equal(t, abstractions.FingerprintOf("first"), held.Holder.Fingerprint)
}

// Claims that poll a held name leave no trace: neither dead rows nor WAL.
func TestRefusedAcquireWritesNothing(t *testing.T) {
	t.Parallel()
	for _, history := range []string{"true", "false"} {
		for _, ttl := range []time.Duration{time.Minute, abstractions.Infinite} {
			refusedWritesNothing(t, ttl, "history", history)
		}
	}
}

func refusedWritesNothing(t *testing.T, ttl time.Duration, parameters ...string) {
	ctx, open := bounded(t), database.New(t)
	p := open(parameters...)
	_, err := p.Acquire(ctx, claimOf("n", ttl))
	require.NoError(t, err)
	b := backendOf(p)
	stamp := func() (text string) {
		statement := inTables(p, "SELECT xmin::text || ' ' || xmax::text || ' ' || ctid::text FROM {lease}")
		require.NoError(t, dialect.ViaSQL{Querier: b.db}.Query(ctx, statement, nil, func(scan dialect.Scan) error { return scan(&text) }))
		return text
	}
	before := stamp()
	_, err = p.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Equal(t, before, stamp())
}

// T66: a locked row does not delay the other rows of the batch, and is not reported as renewed or
// lost.
func TestTrap_T66_LockedRowOfABatchIsUnknown(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p, store := open(), open()
	var requests []abstractions.RenewRequest
	for i := range 20 {
		claim, err := store.Acquire(ctx, claimOf(fmt.Sprint("n", i), time.Minute))
		require.NoError(t, err)
		requests = append(requests, renewalOf(claim))
	}
	requests = append(requests, abstractions.RenewRequest{Name: "never seen", ID: "x", Token: 1, TTL: time.Minute})
	unlock := lockRow(t, p, "n7", justLock)
	results, err := store.RenewBatch(ctx, requests)
	require.NoError(t, err)
	for i, result := range results {
		switch i {
		case 7:
			require.ErrorIs(t, result.Err, abstractions.ErrUnavailable)
			require.NotErrorIs(t, result.Err, abstractions.ErrThrottled)
			require.NotErrorIs(t, result.Err, abstractions.ErrLost)
		case 20:
			lostBecause(t, result.Err, abstractions.LostGone)
		default:
			require.NoError(t, result.Err)
			exactly(t, time.Minute, result.Grant)
		}
	}
	unlock()
	results, err = store.RenewBatch(ctx, requests[7:8])
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
}

// Two batches over the same rows in opposite orders don't deadlock.
func TestBatchesLockInOneOrder(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	store := open()
	var forwards, backwards []abstractions.RenewRequest
	for i := range 50 {
		claim, err := store.Acquire(ctx, claimOf(fmt.Sprintf("n%02d", i), time.Minute))
		require.NoError(t, err)
		forwards = append(forwards, renewalOf(claim))
		backwards = append([]abstractions.RenewRequest{renewalOf(claim)}, backwards...)
	}
	var all sync.WaitGroup
	for _, requests := range [][]abstractions.RenewRequest{forwards, backwards, forwards, backwards} {
		all.Go(func() {
			for range 20 {
				// Unlike a batch, this call waits for the rows: skipping locked rows would hide a
				// deadlock.
				verdicts, err := dialecttest.BackendOf(store).Renew(ctx, requests, true)
				require.NoError(t, err)
				for _, v := range verdicts {
					require.NoError(t, v.Err)
				}
			}
		})
	}
	all.Wait()
}

// T12: however many acquires wait, a connection is left for renewals.
func TestTrap_T12_RenewalsDoNotStarveBehindAcquires(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open("pool_max_conns", "3")
	claim, err := p.Acquire(ctx, claimOf("mine", time.Minute))
	require.NoError(t, err)
	stuck, err := p.Acquire(ctx, claimOf("stuck", time.Minute))
	require.NoError(t, err)
	err = p.Release(ctx, releaseOf(stuck))
	require.NoError(t, err)
	unlock := lockRow(t, p, "stuck", justLock)

	var all sync.WaitGroup
	for range 12 {
		all.Go(func() { p.Acquire(ctx, claimOf("stuck", time.Minute)) })
	}
	waitBlocked(t, p, 2)
	_, err = p.Renew(ctx, renewalOf(claim))
	require.NoError(t, err)
	results, err := p.RenewBatch(ctx, []abstractions.RenewRequest{renewalOf(claim)})
	require.NoError(t, err)
	require.NoError(t, results[0].Err)
	unlock()
	all.Wait()
}

// T33: a request that is stuck ends with its context, or with Options.Timeout.
func TestTrap_T33_StuckRequestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	open := database.New(t)
	p := open("timeout", "300ms")
	claim, err := p.Acquire(t.Context(), claimOf("n", time.Minute))
	require.NoError(t, err)
	unlock := lockRow(t, p, "n", justLock)
	defer unlock()
	_, err = p.Renew(t.Context(), renewalOf(claim))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	ctx, cancel := context.WithCancel(bounded(t))
	time.AfterFunc(100*time.Millisecond, cancel)
	err = p.Release(ctx, releaseOf(claim))
	require.ErrorIs(t, err, context.Canceled)
}

// The application's own databases and pools all work, and stay open.
func TestOwnConnections(t *testing.T) {
	ctx := bounded(t)
	base := connectPostgres(t)
	defer base.Close(ctx)
	modes := map[string]pgx.QueryExecMode{
		"cache": pgx.QueryExecModeCacheStatement, "describe": pgx.QueryExecModeCacheDescribe,
		"exec": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol,
	}
	for name, mode := range modes {
		config := base.Config()
		config.DefaultQueryExecMode = mode
		t.Run("DB/"+name, func(t *testing.T) {
			db := stdlibDB(t, config)
			db.SetMaxOpenConns(1)
			worksAndStaysOpen(t, Options{DB: db, Schema: newSchema(t)}, func() error { return db.PingContext(ctx) })
		})
		t.Run("Pool/"+name, func(t *testing.T) {
			poolConfig, err := pgxpool.ParseConfig(postgresURL(t))
			require.NoError(t, err)
			poolConfig.ConnConfig, poolConfig.MaxConns = config, 1
			pool, err := pgxpool.NewWithConfig(ctx, poolConfig)
			require.NoError(t, err)
			defer pool.Close()
			worksAndStaysOpen(t, Options{Pool: pool, Schema: newSchema(t)}, func() error { return pool.Ping(ctx) })
		})
	}
	t.Run("DB over pool", func(t *testing.T) {
		pool, err := pgxpool.New(ctx, postgresURL(t))
		require.NoError(t, err)
		defer pool.Close()
		db := stdlib.OpenDBFromPool(pool)
		defer db.Close()
		worksAndStaysOpen(t, Options{DB: db, Schema: newSchema(t)}, func() error { return db.PingContext(ctx) })
	})
	t.Run("DSN", func(t *testing.T) {
		c := base.Config()
		dsn := fmt.Sprintf("host=%s port=%d user=%s password='%s' dbname=%s", c.Host, c.Port, c.User, c.Password, c.Database)
		worksAndStaysOpen(t, Options{DSN: dsn, Schema: newSchema(t)}, func() error { return nil })
	})
}

func worksAndStaysOpen(t *testing.T, options Options, ping func() error) {
	ctx := bounded(t)
	options.Create, options.History = true, true
	p, err := Open(ctx, options)
	require.NoError(t, err)
	request := claimOf("n", time.Minute)
	request.Metadata = map[string]string{"a": `"\`}
	claim, err := p.Acquire(ctx, request)
	require.NoError(t, err)
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, request.Metadata, record.Metadata)

	waiter, ok := abstractions.As[abstractions.Waiter](p)
	require.True(t, ok, "all of these are pgx")
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	wakeups, err := waiter.Wait(waiting, abstractions.WaitRequest{Name: "n", ID: "w"})
	require.NoError(t, err)
	refused(ctx, t, p, "n", "w")

	_, err = p.Renew(ctx, renewalOf(claim))
	require.NoError(t, err)
	err = p.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "a-stranger"})
	require.NoError(t, err)
	require.Empty(t, wakeups.C)
	err = p.Release(ctx, releaseOf(claim))
	require.NoError(t, err)
	awaitWakeup(t, wakeups)

	infinite, err := p.Acquire(ctx, claimOf("i", abstractions.Infinite))
	require.NoError(t, err)
	require.True(t, expiry(t, infinite).IsZero())
	broken, err := p.Break(ctx, abstractions.BreakRequest{Name: "i", Grace: time.Minute})
	require.NoError(t, err)
	require.InDelta(t, time.Minute, broken.Remaining, float64(time.Second))
	list, err := p.List(ctx, abstractions.ListRequest{HeldOnly: true})
	require.NoError(t, err)
	require.Len(t, list.Records, 1)
	_, err = p.Sweep(ctx)
	require.NoError(t, err)
	history, err := p.History(ctx, abstractions.HistoryRequest{Name: "n"})
	require.NoError(t, err)
	require.Len(t, history.Entries, 2)
	require.NoError(t, p.Close())
	require.NoError(t, ping())
}

// The driver's request to cancel a query has a context of 15 s, but its attempt to connect has a timeout of its own.
func TestAttemptsToConnectAreBounded(t *testing.T) {
	dialed := func(ctx context.Context, _, _ string) (net.Conn, error) {
		deadline, ok := ctx.Deadline()
		require.True(t, ok)
		require.LessOrEqual(t, time.Until(deadline), 2*time.Second)
		return nil, net.ErrClosed
	}
	_, err := dialWithin(2*time.Second, dialed)(t.Context(), "tcp", "127.0.0.1:1")
	require.ErrorIs(t, err, net.ErrClosed)
}

// hookedQuerier is a database that calls a function once, before the first run of a given statement.
type hookedQuerier struct {
	dialect.Querier
	before    string
	something func()
	once      sync.Once
}

func (m *hookedQuerier) QueryContext(ctx context.Context, statement string, args ...any) (*sql.Rows, error) {
	if statement == m.before {
		m.once.Do(m.something)
	}
	return m.Querier.QueryContext(ctx, statement, args...)
}

// T63: a break ends only the lease that it has read, and not a lease that replaces it before the
// break is written. Other changes in between do not prevent the break.
func TestTrap_T63_BreakLeavesTheNextLeaseAlone(t *testing.T) {
	for _, immediate := range []bool{false, true} {
		open := database.New(t)
		ctx, p, others := bounded(t), open(), open()
		var first, next abstractions.Grant
		first, err := p.Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		b := backendOf(p)
		b.db.isPgx = false // so that the querier is used
		b.db.Querier = &hookedQuerier{Querier: b.db.Querier, before: b.SQL["write"], something: func() {
			require.NoError(t, others.Release(ctx, releaseOf(first)))
			next, err = others.Acquire(ctx, claimOf("n", time.Minute))
			require.NoError(t, err)
		}}
		result, err := p.Break(ctx, abstractions.BreakRequest{Name: "n", Immediate: immediate})
		require.NoError(t, err)
		require.Equal(t, abstractions.BreakResult{Token: first.Token}, result)
		_, err = others.Renew(ctx, renewalOf(next))
		require.NoError(t, err, "nobody has met this lease")

		b.db.Querier = &hookedQuerier{Querier: b.db.Querier, before: b.SQL["write"], something: func() {
			_, err := others.Renew(ctx, renewalOf(next))
			require.NoError(t, err)
		}}
		result, err = p.Break(ctx, abstractions.BreakRequest{Name: "n", Immediate: immediate})
		require.NoError(t, err)
		require.True(t, result.WasHeld)
		_, err = others.Renew(ctx, renewalOf(next))
		lostBecause(t, err, abstractions.LostBroken)
	}
}
