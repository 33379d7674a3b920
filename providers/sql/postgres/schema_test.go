package postgreslease

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/stretchr/testify/require"
)

// A role that may not create tables receives the statements to run, and can use the tables
// once another role has run the statements.
func TestRoleWithoutRightsLearnsTheStatements(t *testing.T) {
	ctx, schema := bounded(t), newSchema(t)
	role := "limited_" + schema
	execPostgres(t, `CREATE ROLE `+role+` LOGIN PASSWORD 'limited'`)
	t.Cleanup(func() { execPostgres(t, "DROP OWNED BY "+role, "DROP ROLE "+role) })
	admin := connectPostgres(t)
	defer admin.Close(ctx)
	config := admin.Config()
	limited, err := OpenURL(ctx, withParameters("postgres://"+role+":limited@"+config.Host+":"+strconv.Itoa(int(config.Port))+"/"+config.Database, "schema", schema, "history", "true", "sslmode", "prefer"))
	require.NoError(t, err)
	defer limited.Close()

	err = limited.Migrate(ctx)
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	var setup *sqllease.SetupError
	require.ErrorAs(t, err, &setup)
	require.Equal(t, role, setup.Role)
	for _, statement := range setup.Statements {
		require.ErrorContains(t, err, statement)
	}
	require.Contains(t, setup.Statements[0], "CREATE SCHEMA")

	execPostgres(t, setup.Statements...)
	require.NoError(t, limited.Migrate(ctx), "there is nothing left to do")
	claim, err := limited.Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	_, err = limited.Renew(ctx, renewalOf(claim))
	require.NoError(t, err)
	err = limited.Release(ctx, releaseOf(claim))
	require.NoError(t, err)
	_, err = limited.Sweep(ctx)
	require.NoError(t, err)
	history, err := limited.History(ctx, abstractions.HistoryRequest{Name: "n"})
	require.NoError(t, err)
	require.Len(t, history.Entries, 2)

	execPostgres(t, "REVOKE ALL ON "+schema+".lease FROM "+role)
	_, err = limited.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrDenied)
	require.NotErrorIs(t, err, abstractions.ErrUnavailable)
}

func TestTablesThatWereDroppedAreASetupError(t *testing.T) {
	ctx, p := bounded(t), database.New(t)()
	execute(ctx, t, p, "DROP TABLE {lease}")
	_, err := p.Acquire(ctx, claimOf("n", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
}

func TestDatabaseMustBeUTF8(t *testing.T) {
	ctx := bounded(t)
	name := newSchema(t)
	execPostgres(t, "CREATE DATABASE "+name+" ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0")
	t.Cleanup(func() { execPostgres(t, "DROP DATABASE "+name+" WITH (FORCE)") })
	config := connectPostgres(t)
	defer config.Close(ctx)
	latin := *config.Config()
	latin.Database = name
	p, err := Open(ctx, Options{DB: stdlibDB(t, &latin)})
	require.NoError(t, err)
	defer p.Close()
	err = p.Migrate(ctx)
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, "LATIN1")
}

// Processes of several applications that start together create their tables in one new schema, with any default isolation
// level.
func TestMigrateSeveralTablesIntoOneNewSchema(t *testing.T) {
	for _, isolation := range []string{"read committed", "repeatable read", "serializable", "serializable", "serializable"} {
		ctx, open := bounded(t), database.New(t)
		results := make(chan error)
		for i := range 8 {
			p := open("create", "false", "table", fmt.Sprint("t", i/2), "default_transaction_isolation", isolation)
			go func() { results <- p.Migrate(ctx) }()
		}
		for range 8 {
			require.NoError(t, <-results)
		}
	}
}

func TestOpenMakesNoRequest(t *testing.T) {
	p, err := OpenURL(t.Context(), "postgres://127.0.0.1:1/d")
	require.NoError(t, err)
	require.Error(t, p.Ping(t.Context()))
	require.NoError(t, p.Close())
}
