package sqllease

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestOpenMakesNoRequest(t *testing.T) {
	for _, rawURL := range []string{"postgres://127.0.0.1:1/d", "sqlite://" + filepath.Join(t.TempDir(), "missing", "x.db")} {
		p, err := OpenURL(t.Context(), rawURL)
		require.NoError(t, err)
		require.Error(t, p.Ping(t.Context()))
		require.NoError(t, p.Close())
	}
}

func TestSqliteFolderThatIsMissingIsASetupError(t *testing.T) {
	p, err := OpenURL(t.Context(), "sqlite://"+filepath.Join(t.TempDir(), "missing", "x.db"))
	require.NoError(t, err)
	defer p.Close()
	require.ErrorIs(t, p.Migrate(t.Context()), abstractions.ErrNotSetUp)
}

func TestMissingTablesAskForMigrate(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("create", "false")
		_, err := p.Acquire(ctx, claimOf("n", time.Second))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.ErrorContains(t, err, "Migrate")
		require.ErrorIs(t, p.Ping(ctx), abstractions.ErrNotSetUp)

		require.NoError(t, p.Migrate(ctx))
		_, err = p.Acquire(ctx, claimOf("n", time.Second))
		require.NoError(t, err)
	})
}

func TestMigrateAgainChangesNothing(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open()
		claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Migrate(ctx))
		require.NoError(t, p.driver.backend.migrate(ctx), "under the lock too")
		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, abstractions.FingerprintOf(claim.ID), record.Fingerprint)
	})
}

func TestNewerTablesAreLeftAlone(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open()
		execute(ctx, t, p.driver.backend, "INSERT INTO {schema} (version) VALUES (99)")

		old := open("create", "false")
		_, err := old.Acquire(ctx, claimOf("n", time.Second))
		for _, err := range []error{err, old.Migrate(ctx), old.driver.backend.migrate(ctx)} {
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorContains(t, err, "version 99")
			require.ErrorContains(t, err, fmt.Sprint("up to ", schemaVersion))
		}
		execute(ctx, t, p.driver.backend, "DELETE FROM {schema} WHERE version = 99")
		record, err := old.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.Zero(t, record.Token, "nothing was changed")
	})
}

func TestMigrateTogether(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx := bounded(t)
		results := make(chan error)
		for range 8 {
			go func() {
				p := open("create", "false")
				err := p.Migrate(ctx)
				if err == nil {
					_, err = p.Acquire(ctx, claimOf("once", time.Minute))
				}
				results <- err
			}()
		}
		winners := 0
		for range 8 {
			err := <-results
			if err == nil {
				winners++
			} else {
				require.ErrorIs(t, err, abstractions.ErrHeld)
			}
		}
		require.Equal(t, 1, winners)
	})
}

// A role that may not create tables is told what somebody else must run, and
// can work once they have.
func TestRoleWithoutRightsIsToldTheStatements(t *testing.T) {
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
	var setup *SetupError
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
	ctx, p := bounded(t), databases["postgres"](t)()
	execute(ctx, t, p.driver.backend, "DROP TABLE {lease}")
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
	p, err := Open(ctx, Options{DB: stdlibDB(t, &latin), Dialect: Postgres})
	require.NoError(t, err)
	defer p.Close()
	err = p.Migrate(ctx)
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, "LATIN1")
}

func TestFileThatIsNoDatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text.db")
	require.NoError(t, os.WriteFile(path, []byte("this is a text, and long enough to be taken for the header of a database file, which is a hundred bytes long"), 0o600))
	_, err := OpenURL(t.Context(), "sqlite://"+path+"?create=true")
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
}

func TestStatementsCreateTheTables(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("create", "false")
		for _, statement := range p.Statements() {
			execute(ctx, t, p.driver.backend, statement)
		}
		require.NoError(t, p.Migrate(ctx))
		_, err := p.Acquire(ctx, claimOf("n", time.Second))
		require.NoError(t, err)
	})
}

// T87: tables of another application are left alone, and asking again does not help.
func TestTrap_T87_ForeignTablesAreLeftAlone(t *testing.T) {
	for _, taken := range []string{"lease", "lease_history"} {
		onEach(t, func(t *testing.T, open func(...string) *Provider) {
			ctx, p := bounded(t), open("create", "false")
			if b, ok := p.driver.backend.(*postgres); ok {
				execPostgres(t, "CREATE SCHEMA "+b.tables.schema, "CREATE TABLE "+b.tables.schema+"."+taken+" (name text, n int)",
					"COMMENT ON TABLE "+b.tables.schema+"."+taken+" IS 'rented flats'")
			} else {
				execute(ctx, t, p.driver.backend, "CREATE TABLE "+taken+" (name text, n int)")
			}
			err := p.Migrate(ctx)
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorContains(t, err, taken)
			_, err = p.Acquire(ctx, claimOf("n", time.Minute))
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			if b, ok := p.driver.backend.(*postgres); ok {
				var comment string
				err := viaSQL{b.db}.query(ctx, "SELECT obj_description(('"+b.tables.schema+"."+taken+"')::regclass, 'pg_class')", nil, func(scan scan) error { return scan(&comment) })
				require.NoError(t, err)
				require.Equal(t, "rented flats", comment)
			}
			_, err = open("table", "other").Acquire(ctx, claimOf("n", time.Minute))
			require.NoError(t, err, "beside them")
		})
	}
}

// T87: tables that were replaced while they were in use are told as what they are.
func TestTrap_T87_TablesThatChangedAreNotSetUp(t *testing.T) {
	for name, statements := range map[string][]string{
		"dropped":     {"DROP TABLE {lease}"},
		"without key": {"ALTER TABLE {lease} RENAME TO old", "CREATE TABLE {lease} AS SELECT * FROM {old}"},
		"a view":      {"ALTER TABLE {lease} RENAME TO old", "CREATE VIEW {lease} AS SELECT * FROM {old} WHERE name <> '' LIMIT 1000"},
		"other":       {"DROP TABLE {lease}", "CREATE TABLE {lease} (name text PRIMARY KEY, n int)"},
	} {
		t.Run(name, func(t *testing.T) {
			onEach(t, func(t *testing.T, open func(...string) *Provider) {
				ctx, p := bounded(t), open()
				old := "old"
				if b, ok := p.driver.backend.(*postgres); ok {
					old = b.tables.schema + ".old"
				}
				_, err := p.Acquire(ctx, claimOf("n", time.Minute))
				require.NoError(t, err)
				for _, statement := range statements {
					execute(ctx, t, p.driver.backend, strings.ReplaceAll(statement, "{old}", old))
				}
				_, err = p.Acquire(ctx, claimOf("m", time.Minute))
				require.ErrorIs(t, err, abstractions.ErrNotSetUp)
				require.NotErrorIs(t, err, abstractions.ErrUnavailable)
			})
		})
	}
}

// An open provider sees that newer code has migrated the tables.
func TestNewerSchemaIsNoticedByAnOpenProvider(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open()
		grant, err := p.Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		execute(ctx, t, p.driver.backend, "INSERT INTO {schema} (version) VALUES (99)")
		p.driver.checked.Add(-int64(checkAgain)) // as if that had passed
		_, err = p.Renew(ctx, renewalOf(grant))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.ErrorContains(t, err, "version 99")
		require.ErrorIs(t, p.Release(ctx, releaseOf(grant)), abstractions.ErrNotSetUp, "and it stays so")
		require.ErrorIs(t, p.Ping(ctx), abstractions.ErrNotSetUp)
	})
}

// Several processes of several applications that start together make their tables in one new schema, whatever transactions see
// by default.
func TestMigrateSeveralTablesIntoOneNewSchema(t *testing.T) {
	for _, isolation := range []string{"read committed", "repeatable read", "serializable", "serializable", "serializable"} {
		ctx, open := bounded(t), databases["postgres"](t)
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
