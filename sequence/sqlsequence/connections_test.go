package sqlsequence

import (
	"context"
	"database/sql"
	"net/url"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/require"
)

// T164: the sessions of the application's pool are read-only, or the server has lost the client's prepared statements. One
// attempt fails, and the next attempt gets a session that works.
func TestTrap_T164_ConnectionsOfNoUseAreClosed_postgres(t *testing.T) {
	p := newPostgres(t)
	p.Open(t)
	role := "reader" + p.schema
	execPostgres(t, "CREATE ROLE "+role+" SUPERUSER LOGIN PASSWORD 'geheim'")
	t.Cleanup(func() { execPostgres(t, "DROP ROLE "+role) })
	u, err := url.Parse(postgresURL(t))
	require.NoError(t, err)
	u.User = url.UserPassword(role, "geheim")

	t.Run("pool", func(t *testing.T) {
		pool, err := pgxpool.New(t.Context(), u.String())
		require.NoError(t, err)
		t.Cleanup(pool.Close)
		store, err := OpenPool(pool, Options{Schema: p.schema, NoWakeups: true})
		closesTheUseless(t, store, err, role, "pool", func(n int, statement string) {
			conns := make([]*pgxpool.Conn, n)
			for i := range conns {
				conns[i], err = pool.Acquire(t.Context())
				require.NoError(t, err)
				_, err = conns[i].Exec(t.Context(), statement)
				require.NoError(t, err)
			}
			for _, conn := range conns {
				conn.Release()
			}
		})
	})
	t.Run("db", func(t *testing.T) {
		config, err := pgx.ParseConfig(u.String())
		require.NoError(t, err)
		db := stdlib.OpenDB(*config)
		db.SetMaxIdleConns(8)
		t.Cleanup(func() { require.NoError(t, db.Close()) })
		store, err := OpenPostgres(db, Options{Schema: p.schema, NoWakeups: true})
		closesTheUseless(t, store, err, role, "db", func(n int, statement string) {
			conns := make([]*sql.Conn, n)
			for i := range conns {
				conns[i], err = db.Conn(t.Context())
				require.NoError(t, err)
				_, err = conns[i].ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			for _, conn := range conns {
				require.NoError(t, conn.Close())
			}
		})
	})
}

func closesTheUseless[Tx any](t *testing.T, store *Store[Tx], err error, role, stream string, on func(n int, statement string)) {
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, store.Close()) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	execPostgres(t, "ALTER ROLE "+role+" SET default_transaction_read_only = on")
	on(4, "SELECT 1")
	require.ErrorIs(t, store.CreateStream(ctx, stream), leasing.ErrThrottled)
	on(4, "SELECT 1")
	execPostgres(t, "ALTER ROLE "+role+" RESET default_transaction_read_only")
	if store.CreateStream(ctx, stream) != nil {
		require.NoError(t, store.CreateStream(ctx, stream))
	}

	req := seqstore.LeaseRequest{Stream: stream, Op: "o", Duration: time.Minute}
	_, err = store.Lease(ctx, req)
	require.NoError(t, err)
	failures := 0
	for range 5 {
		on(1, "DEALLOCATE ALL")
		if _, err := store.Lease(ctx, req); err != nil {
			require.ErrorIs(t, err, leasing.ErrThrottled)
			failures++
		}
	}
	require.LessOrEqual(t, failures, 1)
}
