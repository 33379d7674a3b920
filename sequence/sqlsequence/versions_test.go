package sqlsequence

import (
	"context"
	"database/sql"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// testDatabase is a database, with a function that opens the store of a release. The field in is the name of the tables' schema,
// followed by a dot.
type testDatabase struct {
	db   *sql.DB
	in   string
	open func(t *testing.T, steps ...[]string) *Store[*sql.Tx]
}

// testDatabases are the databases of a test. open returns the store of the release whose dialect has the given steps.
func testDatabases(t *testing.T) map[string]testDatabase {
	s, p := newSqlite(t), newPostgres(t)
	release := func(t *testing.T, on backend[*sql.Tx], d dialect, o Options, steps [][]string) *Store[*sql.Tx] {
		d.steps = steps
		d.create = slices.Concat(d.create, slices.Concat(steps...))
		store, err := newStore(on, d, o, nil)
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, store.Close()) })
		return store
	}
	return map[string]testDatabase{
		"sqlite": {s.db, "", func(t *testing.T, steps ...[]string) *Store[*sql.Tx] {
			return release(t, &sqliteDatabase{db: s.open(t), turn: make(chan struct{}, 1)}, sqliteDialect, Options{}, steps)
		}},
		"postgres": {p.db, p.schema + ".", func(t *testing.T, steps ...[]string) *Store[*sql.Tx] {
			return release(t, newSQLDatabase(p.db), postgresDialect, Options{Schema: p.schema, NoWakeups: true}, steps)
		}},
	}
}

// The steps of two later releases: version 2 adds a column, and version 3 renames the column.
var (
	toVersion2 = []string{`ALTER TABLE {{entry}} ADD COLUMN note TEXT NOT NULL DEFAULT ''`, `UPDATE {{entry}} SET note = 'of version 1'`}
	toVersion3 = []string{`ALTER TABLE {{entry}} RENAME COLUMN note TO remark`}
)

// Migrate brings the tables of an earlier release up to date, with their rows. A running program of that release continues. A
// program of that release that starts later is refused, and does not change the tables.
func TestTrap_T255_TablesAreBroughtUpToDate(t *testing.T) {
	for name, at := range testDatabases(t) {
		t.Run(name, func(t *testing.T) {
			earlier := at.open(t)
			require.NoError(t, earlier.Migrate(t.Context()))
			require.NoError(t, earlier.CreateStream(t.Context(), "s"))
			e, err := earlier.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "o", Duration: time.Hour})
			require.NoError(t, err)

			require.ErrorContains(t, at.open(t, toVersion2, toVersion3).CreateStream(t.Context(), "s"), "call Migrate")
			var group sync.WaitGroup
			for range 4 {
				newer := at.open(t, toVersion2, toVersion3)
				group.Go(func() { assert.NoError(t, newer.Migrate(context.Background())) })
			}
			group.Wait()
			var remark string
			require.NoError(t, at.db.QueryRowContext(t.Context(), "SELECT remark FROM "+at.in+"sequence_entry").Scan(&remark))
			require.Equal(t, "of version 1", remark)
			require.Equal(t, []string{"1", "2", "3"}, versions(t, at))

			renew := func(s *Store[*sql.Tx]) error {
				_, err := s.Renew(t.Context(), seqstore.RenewRequest{Stream: "s", Seq: e.Seq, Token: e.Token, Duration: time.Hour})
				return err
			}
			require.NoError(t, renew(at.open(t, toVersion2, toVersion3)))
			require.NoError(t, renew(earlier), "an open program goes on")
			for _, release := range []*Store[*sql.Tx]{at.open(t), at.open(t, toVersion2)} {
				for _, err := range []error{renew(release), release.CreateStream(t.Context(), "new"), release.Migrate(t.Context())} {
					require.ErrorIs(t, err, leasing.ErrNotSetUp)
					require.ErrorContains(t, err, "the tables are of version 3, and this release knows versions up to ")
				}
			}
			require.Equal(t, []string{"1", "2", "3"}, versions(t, at))
		})
	}
}

func versions(t *testing.T, at testDatabase) (all []string) {
	rows, err := at.db.QueryContext(t.Context(), "SELECT version FROM "+at.in+"sequence_version ORDER BY version")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var version string
		require.NoError(t, rows.Scan(&version))
		all = append(all, version)
	}
	require.NoError(t, rows.Err())
	return all
}

// New tables have the version of the last step.
func TestNewTablesAreOfTheLatestVersion(t *testing.T) {
	for name, at := range testDatabases(t) {
		newer := at.open(t, toVersion2, toVersion3)
		require.NoError(t, newer.Migrate(t.Context()), name)
		require.Equal(t, []string{"3"}, versions(t, at), name)
		require.NoError(t, newer.CreateStream(t.Context(), "s"), name)
	}
}

// A step that fails changes no table.
func TestTrap_T255_AStepThatFailsChangesNothing(t *testing.T) {
	for name, at := range testDatabases(t) {
		earlier := at.open(t)
		require.NoError(t, earlier.Migrate(t.Context()), name)
		require.Error(t, at.open(t, toVersion2, []string{"nonsense"}).Migrate(t.Context()), name)
		require.Equal(t, []string{"1"}, versions(t, at), name)
		require.Error(t, at.db.QueryRowContext(t.Context(), "SELECT note FROM "+at.in+"sequence_entry").Err(), name)
		require.NoError(t, at.open(t).CreateStream(t.Context(), "s"), name)
	}
}

// Tables from before release 0.1.0 record their version in another table. They are refused and left
// unchanged.
func TestTablesOfBeforeTheFirstReleaseAreRefused(t *testing.T) {
	for name, at := range testDatabases(t) {
		require.NoError(t, at.open(t).Migrate(t.Context()), name)
		_, err := at.db.ExecContext(t.Context(), "ALTER TABLE "+at.in+"sequence_version RENAME TO sequence_schema")
		require.NoError(t, err, name)
		for _, err := range []error{at.open(t).Migrate(t.Context()), at.open(t).CreateStream(t.Context(), "s")} {
			require.ErrorIs(t, err, leasing.ErrNotSetUp, name)
			require.ErrorContains(t, err, "a release before 0.1.0", name)
		}
	}
}

// This release makes the same tables as release 0.1.0, and reads the rows of that release.
func TestGoldenDatabases(t *testing.T) {
	for name, at := range testDatabases(t) {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/" + name + "-0.1.0.sql")
			require.NoError(t, err)
			tables, rows, found := strings.Cut(string(text), "\n-- rows\n")
			require.True(t, found)
			schema := strings.TrimSuffix(at.in, ".")
			if schema != "" {
				tables, rows = strings.ReplaceAll(tables, "infra", schema), strings.ReplaceAll(rows, "infra", schema)
			}
			store := at.open(t)
			require.Equal(t, tables, strings.Join(store.Statements(), ";\n\n")+";\n")
			for _, statement := range store.Statements() {
				if strings.HasPrefix(statement, "CREATE SCHEMA") { // the test has one
					continue
				}
				_, err = at.db.ExecContext(t.Context(), statement)
				require.NoError(t, err)
			}
			_, err = at.db.ExecContext(t.Context(), rows)
			require.NoError(t, err)

			require.NoError(t, store.Migrate(t.Context()))
			committed, err := store.Find(t.Context(), "jobs", "first")
			require.NoError(t, err)
			require.Equal(t, sequence.Committed, committed.State)
			require.Equal(t, "payload", string(committed.Payload))
			_, err = store.Renew(t.Context(), seqstore.RenewRequest{Stream: "jobs", Seq: 2, Token: 1, Duration: time.Hour})
			require.NoError(t, err)
			next, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "jobs", Op: "third", Duration: time.Hour})
			require.NoError(t, err)
			require.EqualValues(t, 3, next.Seq)
		})
	}
}
