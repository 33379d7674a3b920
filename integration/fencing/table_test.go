// Package fencing_test tests the SQL and Redis checks of the root module's package
// fencing against real servers: the root module requires no driver, even in
// tests.
package fencing_test

import (
	"context"
	"database/sql"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/sqlfence"
)

// show passes a token through the table's check, in a transaction of its own.
func show(t *testing.T, b backend, table *sqlfence.Table, resource string, token int64) error {
	t.Helper()
	return table.Do(t.Context(), b.db, resource, token, func(context.Context, *sql.Tx) error { return nil })
}

func TestTableRemembersTheHighestTokenOfEachResource(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b backend) {
		table := b.table(t)
		require.NoError(t, show(t, b, table, "a", 33))
		require.NoError(t, show(t, b, table, "a", 33), "the same holder again")
		require.NoError(t, show(t, b, table, "a", 34))
		require.Equal(t, &fencing.StaleError{Resource: "a", Token: 33, Seen: 34}, show(t, b, table, "a", 33))
		require.NoError(t, show(t, b, table, "A", 1), "names are compared bytewise")
		require.NoError(t, show(t, b, table, "a ", 1))
		require.NoError(t, show(t, b, table, `'; DROP TABLE fencing; --`, 1))
		require.NoError(t, show(t, b, table, "a", leasing.MaxToken))
		require.ErrorIs(t, show(t, b, table, "a", leasing.MaxToken-1), leasing.ErrStale)
	})
}

func TestExecWritesOnlyWithACurrentToken(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b backend) {
		table := b.table(t)
		b.exec(t, "CREATE TABLE account (balance bigint NOT NULL)")
		b.exec(t, "INSERT INTO account VALUES (0)")
		set := func(token, balance int64) error {
			return table.Do(t.Context(), b.db, "account", token, func(ctx context.Context, tx *sql.Tx) error {
				_, err := table.Exec(ctx, tx, "account", token, b.sql("UPDATE account SET balance = ?"), balance)
				return err
			})
		}
		require.NoError(t, set(1, 10))
		require.NoError(t, set(2, 20))
		require.ErrorIs(t, set(1, 30), leasing.ErrStale)
		var balance int64
		require.NoError(t, b.db.QueryRowContext(t.Context(), "SELECT balance FROM account").Scan(&balance))
		require.EqualValues(t, 20, balance)
	})
}

func TestARolledBackTokenWasNeverSeen(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b backend) {
		table := b.table(t)
		boom := errors.New("boom")
		err := table.Do(t.Context(), b.db, "a", 2, func(context.Context, *sql.Tx) error { return boom })
		require.Equal(t, boom, err)
		require.NoError(t, show(t, b, table, "a", 1))

		ctx, cancel := context.WithCancel(t.Context())
		err = table.Do(ctx, b.db, "a", 3, func(context.Context, *sql.Tx) error { cancel(); return nil })
		require.ErrorIs(t, err, context.Canceled, "a lease that ends takes its transaction with it")
		require.NoError(t, show(t, b, table, "a", 2))
	})
}

// The new holder's write is under way, and not yet committed, when the old holder's
// late write arrives.
func TestALateWriteWaitsForTheNewHoldersAndIsRefused(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b backend) {
		table := b.table(t)
		require.NoError(t, show(t, b, table, "a", 1))
		current := b.begin(t)
		require.NoError(t, table.Advance(t.Context(), current, "a", 2))

		late := make(chan error, 1)
		go func() { late <- show(t, b, table, "a", 1) }()
		b.waiting(t)
		select {
		case err := <-late:
			t.Fatalf("decided before the new holder's transaction: %v", err)
		default:
		}
		require.NoError(t, current.Commit())
		require.Equal(t, &fencing.StaleError{Resource: "a", Token: 1, Seen: 2}, <-late)
	})
}

// The first two tokens of a resource are ordered, too, although there is no row yet to lock.
func TestTheFirstTwoTokensOfAResourceAreOrderedToo(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b backend) {
		table := b.table(t)
		current := b.begin(t)
		require.NoError(t, table.Advance(t.Context(), current, "new", 2))
		late := make(chan error, 1)
		go func() { late <- show(t, b, table, "new", 1) }()
		b.waiting(t)
		require.NoError(t, current.Commit())
		require.ErrorIs(t, <-late, leasing.ErrStale)
	})
}

// The old holder's transaction is open when the new holder's begins. The new holder
// waits, so its reads see the writes of the old holder.
func TestTheNewHolderWaitsForAWriteAlreadyAdmitted(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b backend) {
		table := b.table(t)
		b.exec(t, "CREATE TABLE note (text text NOT NULL)")
		old := b.begin(t)
		_, err := table.Exec(t.Context(), old, "a", 1, b.sql("INSERT INTO note VALUES (?)"), "old")
		require.NoError(t, err)

		read := make(chan string, 1)
		go func() {
			var text string
			assert.NoError(t, table.Do(t.Context(), b.db, "a", 2, func(ctx context.Context, tx *sql.Tx) error {
				return tx.QueryRowContext(ctx, "SELECT text FROM note").Scan(&text)
			}))
			read <- text
		}()
		b.waiting(t)
		require.NoError(t, old.Commit())
		require.Equal(t, "old", <-read)
	})
}

// At isolation levels above READ COMMITTED the database may fail a transaction instead, but must
// never admit a late write.
func TestStricterIsolationNeverAdmitsALateWrite(t *testing.T) {
	b := openPostgres(t)
	table := b.table(t)
	token := int64(10)
	for _, level := range []sql.IsolationLevel{sql.LevelRepeatableRead, sql.LevelSerializable} {
		require.NoError(t, show(t, b, table, "a", token))
		late, err := b.db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
		require.NoError(t, err)
		var seen int64 // takes the snapshot, which shows the old token
		require.NoError(t, late.QueryRowContext(t.Context(), "SELECT token FROM fencing").Scan(&seen))
		require.NoError(t, show(t, b, table, "a", token+1))
		require.Error(t, table.Advance(t.Context(), late, "a", token), "%v", level)
		require.NoError(t, late.Rollback())
		token += 2
	}
}

// Many connections show random tokens: the admitted tokens never fall, in the order
// of the commits.
func TestTableConcurrentSafe(t *testing.T) {
	onEachBackend(t, func(t *testing.T, b backend) {
		table := b.table(t)
		// The count is taken under the resource's lock, so it orders the writes.
		b.exec(t, "CREATE TABLE admitted (position bigint PRIMARY KEY, token bigint NOT NULL)")
		const workers, rounds = 6, 15
		var wg sync.WaitGroup
		for range workers {
			wg.Go(func() {
				for range rounds {
					token := 1 + rand.Int64N(100)
					err := table.Do(t.Context(), b.db, "a", token, func(ctx context.Context, tx *sql.Tx) error {
						_, err := tx.ExecContext(ctx, b.sql("INSERT INTO admitted SELECT count(*), ? FROM admitted"), token)
						return err
					})
					if !errors.Is(err, leasing.ErrStale) {
						assert.NoError(t, err)
					}
				}
			})
		}
		wg.Wait()
		rows, err := b.db.QueryContext(t.Context(), "SELECT token FROM admitted ORDER BY position")
		require.NoError(t, err)
		defer func() { _ = rows.Close() }()
		count, highest := 0, int64(0)
		for rows.Next() {
			var token int64
			require.NoError(t, rows.Scan(&token))
			require.GreaterOrEqual(t, token, highest)
			count, highest = count+1, token
		}
		require.NoError(t, rows.Err())
		require.Positive(t, count)
	})
}

// AdvanceSQL and Check also work with transactions that do not use package database/sql.
func TestAdvanceSQLWithPgx(t *testing.T) {
	config := postgresConfig(t)
	connection, err := pgx.ConnectConfig(t.Context(), config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, connection.Close(context.Background())) })
	table, err := sqlfence.NewTable(sqlfence.Dollar, "")
	require.NoError(t, err)
	_, err = connection.Exec(t.Context(), table.CreateSQL())
	require.NoError(t, err)

	advance := func(token int64) error {
		return pgx.BeginFunc(t.Context(), connection, func(tx pgx.Tx) error {
			query, args, err := table.AdvanceSQL("a", token)
			if err != nil {
				return err
			}
			var seen int64
			if err := tx.QueryRow(t.Context(), query, args...).Scan(&seen); err != nil {
				return err
			}
			return fencing.Check("a", token, seen)
		})
	}
	require.NoError(t, advance(5))
	require.NoError(t, advance(6))
	require.Equal(t, &fencing.StaleError{Resource: "a", Token: 5, Seen: 6}, advance(5))
}

// A role, a database or PGOPTIONS may set client_encoding. If the encodings of two clients differed, a resource whose
// name is not ASCII would be two resources.
func TestTrap_T103_ResourcesAreInOneEncoding(t *testing.T) {
	config := postgresConfig(t)
	table, err := sqlfence.NewTable(sqlfence.Dollar, "")
	require.NoError(t, err)
	for i, encoding := range []string{"UTF8", "LATIN1", "SQL_ASCII", "EUC_JP", "WIN1252"} {
		config := config.Copy()
		config.RuntimeParams["client_encoding"] = encoding
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeCacheStatement, pgx.QueryExecModeExec} {
			config.DefaultQueryExecMode = mode
			b := backend{style: sqlfence.Dollar, db: stdlib.OpenDB(*config)}
			if i == 0 {
				b.exec(t, table.CreateSQL())
				require.NoError(t, show(t, b, table, "größe", 8))
			}
			require.Equal(t, &fencing.StaleError{Resource: "größe", Token: 7, Seen: 8}, show(t, b, table, "größe", 7), encoding)
			require.NoError(t, show(t, b, table, "größe", 8), encoding)
			var n int
			require.NoError(t, b.db.QueryRowContext(t.Context(), "SELECT count(*) FROM fencing").Scan(&n))
			require.Equal(t, 1, n, encoding)
			require.NoError(t, b.db.Close())
		}
	}
}
