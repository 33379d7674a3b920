package dialecttest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/stretchr/testify/require"
)

func missingTablesAskForMigrate(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("create", "false")
		_, err := p.Acquire(ctx, ClaimOf("n", time.Second))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.ErrorContains(t, err, "Migrate")
		require.ErrorIs(t, p.Ping(ctx), abstractions.ErrNotSetUp)

		require.NoError(t, p.Migrate(ctx))
		_, err = p.Acquire(ctx, ClaimOf("n", time.Second))
		require.NoError(t, err)
	})
}

func migrateAgainChangesNothing(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open()
		claim, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Migrate(ctx))
		require.NoError(t, BackendOf(p).Migrate(ctx), "under the lock too")
		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, abstractions.FingerprintOf(claim.ID), record.Fingerprint)
	})
}

func newerTablesAreLeftAlone(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open()
		Execute(ctx, t, p, "INSERT INTO {schema} (version) VALUES (99)")

		old := open("create", "false")
		_, err := old.Acquire(ctx, ClaimOf("n", time.Second))
		for _, err := range []error{err, old.Migrate(ctx), BackendOf(old).Migrate(ctx)} {
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorContains(t, err, "version 99")
			require.ErrorContains(t, err, fmt.Sprint("up to ", dialect.SchemaVersion))
		}
		Execute(ctx, t, p, "DELETE FROM {schema} WHERE version = 99")
		record, err := old.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.Zero(t, record.Token, "nothing was changed")
	})
}

func migrateTogether(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx := Bounded(t)
		results := make(chan error)
		for range 8 {
			go func() {
				p := open("create", "false")
				err := p.Migrate(ctx)
				if err == nil {
					_, err = p.Acquire(ctx, ClaimOf("once", time.Minute))
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

func statementsCreateTheTables(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("create", "false")
		for _, statement := range p.Statements() {
			Execute(ctx, t, p, statement)
		}
		require.NoError(t, p.Migrate(ctx))
		_, err := p.Acquire(ctx, ClaimOf("n", time.Second))
		require.NoError(t, err)
	})
}

// T87: tables of another application are left alone, and later requests also fail with ErrNotSetUp.
func foreignTablesAreLeftAlone(t *testing.T, d Database) {
	for _, taken := range []string{"lease", "lease_history"} {
		d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
			ctx, p := Bounded(t), open("create", "false")
			table := taken
			if onPostgres(p) {
				Execute(ctx, t, p, "CREATE SCHEMA "+StoreOf(p).Schema)
				table = StoreOf(p).Schema + "." + taken
			}
			Execute(ctx, t, p, "CREATE TABLE "+table+" (name text, n int)")
			if onPostgres(p) {
				Execute(ctx, t, p, "COMMENT ON TABLE "+table+" IS 'rented flats'")
			}
			err := p.Migrate(ctx)
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorContains(t, err, taken)
			_, err = p.Acquire(ctx, ClaimOf("n", time.Minute))
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			if onPostgres(p) {
				var comment string
				err := BackendOf(p).Query(ctx, "SELECT obj_description('"+table+"'::regclass, 'pg_class')", nil, func(scan dialect.Scan) error { return scan(&comment) })
				require.NoError(t, err)
				require.Equal(t, "rented flats", comment)
			}
			_, err = open("table", "other").Acquire(ctx, ClaimOf("n", time.Minute))
			require.NoError(t, err, "beside them")
		})
	}
}

// T87: tables that are replaced while in use are reported as not set up.
func tablesThatChangedAreNotSetUp(t *testing.T, d Database) {
	for name, statements := range map[string][]string{
		"dropped":     {"DROP TABLE {lease}"},
		"without_key": {"ALTER TABLE {lease} RENAME TO old", "CREATE TABLE {lease} AS SELECT * FROM {old}"},
		"a_view":      {"ALTER TABLE {lease} RENAME TO old", "CREATE VIEW {lease} AS SELECT * FROM {old} WHERE name <> '' LIMIT 1000"},
		"other":       {"DROP TABLE {lease}", "CREATE TABLE {lease} (name varchar(100) PRIMARY KEY, n int)"},
	} {
		t.Run(name, func(t *testing.T) {
			d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
				ctx, p := Bounded(t), open()
				old := "old"
				if onPostgres(p) {
					old = StoreOf(p).Schema + ".old"
				}
				_, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
				require.NoError(t, err)
				for _, statement := range statements {
					Execute(ctx, t, p, strings.ReplaceAll(statement, "{old}", old))
				}
				_, err = p.Acquire(ctx, ClaimOf("m", time.Minute))
				require.ErrorIs(t, err, abstractions.ErrNotSetUp)
				require.NotErrorIs(t, err, abstractions.ErrUnavailable)
			})
		})
	}
}

// An open provider notices that a newer release has migrated the tables.
func newerSchemaIsNoticedByAnOpenProvider(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open()
		grant, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		Execute(ctx, t, p, "INSERT INTO {schema} (version) VALUES (99)")
		CheckedOf(p).Store(1) // long ago
		_, err = p.Renew(ctx, RenewalOf(grant))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.ErrorContains(t, err, "version 99")
		require.ErrorIs(t, p.Release(ctx, ReleaseOf(grant)), abstractions.ErrNotSetUp, "and it stays so")
		require.ErrorIs(t, p.Ping(ctx), abstractions.ErrNotSetUp)
	})
}
