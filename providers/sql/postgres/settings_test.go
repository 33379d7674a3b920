package postgreslease

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// Roles and databases have settings of their own, which change the text form of times.
// The modes of pgx without prepared statements send times as text.
func TestDateStyleDecidesNothing(t *testing.T) {
	base := connectPostgres(t)
	defer base.Close(bounded(t))
	for name, mode := range map[string]pgx.QueryExecMode{"exec": pgx.QueryExecModeExec, "simple": pgx.QueryExecModeSimpleProtocol} {
		for _, style := range []string{"German, DMY", "SQL, MDY", "Postgres, DMY"} {
			t.Run(name+"/"+style, func(t *testing.T) {
				config := base.Config()
				config.DefaultQueryExecMode = mode
				config.RuntimeParams["datestyle"], config.RuntimeParams["timezone"] = style, "Asia/Kathmandu"
				config.RuntimeParams["intervalstyle"], config.RuntimeParams["bytea_output"] = "sql_standard", "escape"
				db := stdlibDB(t, config)
				worksAndStaysOpen(t, Options{DB: db, Schema: newSchema(t)}, func() error { return db.PingContext(bounded(t)) })
			})
		}
	}
}

// Roles and databases may have a client_encoding. With different encodings, one name would become
// two names.
func TestTrap_T101_NamesAreInOneEncoding(t *testing.T) {
	t.Parallel()
	ctx, schema, name := bounded(t), newSchema(t), "größe"
	base := withParameters(postgresURL(t), "schema", schema)
	_, err := openTest(t, base, nil).Acquire(ctx, claimOf(name, time.Minute))
	require.NoError(t, err)
	_, err = openTest(t, base, []string{"options", "-c client_encoding=LATIN1"}).Acquire(ctx, claimOf(name, time.Minute))
	require.ErrorIs(t, err, abstractions.ErrHeld, "the default of a connection does not matter")

	config, err := pgx.ParseConfig(postgresURL(t))
	require.NoError(t, err)
	for encoding, want := range map[string]error{"LATIN1": abstractions.ErrNotSetUp, "SQL_ASCII": abstractions.ErrHeld, "UTF8": abstractions.ErrHeld} {
		config.RuntimeParams["client_encoding"] = encoding
		p, err := Open(ctx, Options{DB: stdlibDB(t, config), Schema: schema})
		require.NoError(t, err)
		_, err = p.Acquire(ctx, claimOf(name, time.Minute))
		require.ErrorIs(t, err, want, encoding)
		require.NoError(t, p.Close())
	}
}

// Tests of applications often define a clock function of their own that shadows the server's clock.
func TestSearchPathShadowsNoFunction(t *testing.T) {
	ctx, schema := bounded(t), newSchema(t)
	execPostgres(t, "CREATE SCHEMA "+schema,
		"CREATE FUNCTION "+schema+".clock_timestamp() RETURNS timestamptz LANGUAGE sql AS $$ SELECT '2001-01-01'::timestamptz $$",
		"CREATE FUNCTION "+schema+".strpos(text, text) RETURNS int LANGUAGE sql AS $$ SELECT 7 $$",
		"CREATE FUNCTION "+schema+".pg_notify(text, text) RETURNS void LANGUAGE sql AS $$ SELECT 1/0 $$",
	)
	path := []string{"search_path", schema + ",pg_catalog", "history", "true"}
	p := database.New(t)(path...)
	for range 2 {
		before := time.Now()
		grant, err := p.Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		require.WithinDuration(t, before, serverTime(t, grant), time.Minute)
		_, err = p.Renew(ctx, renewalOf(grant))
		require.NoError(t, err)
		require.NoError(t, p.Release(ctx, releaseOf(grant)))
	}
	_, err := p.Sweep(ctx)
	require.NoError(t, err)
}

// Operators of other schemas are chosen if they fit the operands better than the server's
// own operators.
func TestSearchPathShadowsNoOperator(t *testing.T) {
	ctx, schema := bounded(t), newSchema(t)
	statements := []string{"CREATE SCHEMA " + schema, "SET search_path = " + schema}
	for i, operator := range []struct{ sign, left, right, result, body string }{
		{"*", "bigint", "interval", "interval", "SELECT interval '0'"},
		{"*", "int", "interval", "interval", "SELECT interval '0'"},
		{"*", "numeric", "int", "numeric", "SELECT 7::numeric"},
		{"*", "double precision", "int", "double precision", "SELECT 7::double precision"},
		{"||", "text", "bigint", "text", "SELECT 'nobody'::text"},
	} {
		statements = append(statements,
			fmt.Sprintf("CREATE FUNCTION f%d(%s, %s) RETURNS %s LANGUAGE sql AS $$ %s $$", i, operator.left, operator.right, operator.result, operator.body),
			fmt.Sprintf("CREATE OPERATOR %s (leftarg = %s, rightarg = %s, function = f%d)", operator.sign, operator.left, operator.right, i))
	}
	execPostgres(t, statements...)
	p := database.New(t)("search_path", schema, "history", "true", "history_retention", "1h")
	before := time.Now()
	grant, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	require.WithinDuration(t, before, time.UnixMicro(grant.Token), time.Minute)
	_, err = p.Renew(ctx, renewalOf(grant))
	require.NoError(t, err)
	record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.WithinDuration(t, before.Add(time.Minute), record.ExpiresAt, time.Minute)
	require.NoError(t, p.Release(ctx, releaseOf(grant)))
	_, err = p.Acquire(ctx, abstractions.AcquireRequest{Name: "n", ID: grant.ID, Owner: "tester", TTL: time.Minute})
	require.ErrorIs(t, err, abstractions.ErrReleased)
	_, err = p.Sweep(ctx)
	require.NoError(t, err)
}

// Every function is named with its schema. The names without a schema in the pattern below are
// syntax.
func TestStatementsNameTheSchemaOfFunctions(t *testing.T) {
	tables := postgresTables(Options{Schema: "s", Table: "t"}, true)
	called := regexp.MustCompile(`([\w.]+)\(`)
	delete(tables.SQL, "schema")
	for _, statement := range append(slices.Collect(maps.Values(tables.SQL)), slices.Concat(tables.Create, []string{setUpQuery})...) {
		for _, call := range called.FindAllStringSubmatch(statement, -1) {
			require.Regexp(t, `^(pg_catalog\.\w+|extract|coalesce|greatest|least|OPERATOR|e|r)$`, call[1], statement)
		}
	}
}

// With a pool of one connection, a request does not wait for a locked row. Otherwise all other
// leases would wait for the connection.
func TestTrap_T12_LockedRowStallsNoPoolOfOne(t *testing.T) {
	t.Parallel()
	ctx, open := bounded(t), database.New(t)
	p := open("pool_max_conns", "1")
	mine, err := p.Acquire(ctx, claimOf("mine", time.Minute))
	require.NoError(t, err)
	stuck, err := p.Acquire(ctx, claimOf("stuck", time.Minute))
	require.NoError(t, err)
	free, err := p.Acquire(ctx, claimOf("free", time.Minute))
	require.NoError(t, err)
	require.NoError(t, p.Release(ctx, releaseOf(free)))
	defer lockRow(t, p, "stuck", justLock)()
	defer lockRow(t, p, "free", justLock)()

	var all sync.WaitGroup
	for _, request := range []func() error{
		func() error { _, err := p.Acquire(ctx, claimOf("free", time.Minute)); return err },
		func() error { _, err := p.Renew(ctx, renewalOf(stuck)); return err },
		func() error { return p.Release(ctx, releaseOf(stuck)) },
		func() error { _, err := p.Break(ctx, abstractions.BreakRequest{Name: "stuck"}); return err },
	} {
		all.Go(func() { require.ErrorIs(t, request(), abstractions.ErrThrottled) })
	}
	_, err = p.Renew(ctx, renewalOf(mine))
	require.NoError(t, err)
	all.Wait()
}

// The statements are correct in a pool whose sessions default to another isolation level.
func TestPoolWithAnotherIsolationLevel(t *testing.T) {
	ctx := bounded(t)
	config, err := pgxpool.ParseConfig(postgresURL(t))
	require.NoError(t, err)
	config.ConnConfig.RuntimeParams["default_transaction_isolation"] = "serializable"
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	defer pool.Close()
	worksAndStaysOpen(t, Options{Pool: pool, Schema: newSchema(t)}, func() error { return pool.Ping(ctx) })
}
