package sqllease

import (
	"os"
	"path/filepath"
	"strconv"
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
		ctx, p := bounded(t), open("migrate", "false")
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
		claim, err := p.Store().Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Migrate(ctx))
		require.NoError(t, p.store.backend.migrate(ctx), "under the lock too")
		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, claim.ID, record.ID)
	})
}

func TestNewerTablesAreLeftAlone(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open()
		execute(ctx, t, p.store.backend, "INSERT INTO {schema} (version) VALUES (99)")

		old := open("migrate", "false")
		_, err := old.Acquire(ctx, claimOf("n", time.Second))
		for _, err := range []error{err, old.Migrate(ctx), old.store.backend.migrate(ctx)} {
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorContains(t, err, "version 99")
			require.ErrorContains(t, err, "up to 1")
		}
		execute(ctx, t, p.store.backend, "DELETE FROM {schema} WHERE version = 99")
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
				p := open("migrate", "false")
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
	claim, err := limited.Store().Acquire(ctx, claimOf("n", time.Minute))
	require.NoError(t, err)
	_, err = limited.Store().Renew(ctx, renewalOf(claim))
	require.NoError(t, err)
	_, err = limited.Store().Release(ctx, releaseOf(claim))
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
	execute(ctx, t, p.store.backend, "DROP TABLE {lease}")
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
	_, err := OpenURL(t.Context(), "sqlite://"+path+"?migrate=true")
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
}

func TestStatementsCreateTheTables(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("migrate", "false")
		for _, statement := range p.Store().Statements() {
			execute(ctx, t, p.store.backend, statement)
		}
		require.NoError(t, p.Migrate(ctx))
		_, err := p.Acquire(ctx, claimOf("n", time.Second))
		require.NoError(t, err)
	})
}
