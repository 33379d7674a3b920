package sqlsequence

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/stretchr/testify/require"
)

// backedUp are the tables of a backup, including the application's table. Triggers write the audit while the other tables
// are restored, so the audit's table comes last.
var backedUp = []string{"sequence_stream", "sequence_entry", "sequence_manual", "own", "sequence_event"}

// The databases below have a clock that can be stepped, a deferred constraint, and a backup.

// torturedSqlite is the database on SQLite.
type torturedSqlite struct{ steppedSqlite }

func newTorturedSqlite(t testing.TB) torturedSqlite {
	s := torturedSqlite{newSteppedSqlite(t)}
	_, err := s.db.Exec("CREATE TABLE child (parent TEXT REFERENCES own DEFERRABLE INITIALLY DEFERRED)")
	require.NoError(t, err)
	return s
}

// Refuse makes COMMIT fail.
func (s torturedSqlite) Refuse(ctx context.Context, tx *sql.Tx) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO child VALUES ('nobody')")
	return err
}

func (s torturedSqlite) Backup() (restore func() error, err error) {
	var saves, restores []string
	for _, table := range backedUp {
		saves = append(saves, "DROP TABLE IF EXISTS backup_"+table, "CREATE TABLE backup_"+table+" AS SELECT * FROM "+table)
		restores = append(restores, "DELETE FROM "+table, "INSERT INTO "+table+" SELECT * FROM backup_"+table)
	}
	// The inserts above have run the triggers, which have changed the counter and the audit.
	restores = append(restores, "DELETE FROM sequence_event", "INSERT INTO sequence_event SELECT * FROM backup_sequence_event",
		"DELETE FROM sequence_stream", "INSERT INTO sequence_stream SELECT * FROM backup_sequence_stream")
	run := func(statements []string) error {
		tx, err := s.db.Begin()
		if err != nil {
			return err
		}
		defer tx.Rollback()
		for _, statement := range statements {
			if _, err := tx.Exec(statement); err != nil {
				return fmt.Errorf("%s: %w", statement, err)
			}
		}
		return tx.Commit()
	}
	return func() error { return run(restores) }, run(saves)
}

// torturedPostgres is the database on PostgreSQL, with a pool of its own.
type torturedPostgres struct {
	*pool
}

func newTorturedPostgres(t testing.TB) torturedPostgres {
	p := torturedPostgres{&pool{postgres: newPostgres(t)}}
	config, err := pgxpool.ParseConfig(postgresURL(t))
	require.NoError(t, err)
	config.MaxConns = 32
	p.pool.pool, err = pgxpool.NewWithConfig(context.Background(), config)
	require.NoError(t, err)
	t.Cleanup(p.pool.pool.Close)
	execPostgres(t, append(stepTable(p.schema+".clock"), "CREATE TABLE "+p.schema+".child (parent TEXT REFERENCES "+p.schema+".own DEFERRABLE INITIALLY DEFERRED)")...)
	return p
}

func openStepped(pool *pgxpool.Pool, schema string) (*Store[pgx.Tx], error) {
	return newStore[pgx.Tx](newPgxDatabase(pool), stepped(postgresDialect, schema+".clock"), Options{Schema: schema, Audit: true}, nil)
}

func (p torturedPostgres) Open(t testing.TB) sequence.Store[pgx.Tx] {
	store, err := openStepped(p.pool.pool, p.schema)
	return migrated(t, store, err)
}

func (p torturedPostgres) Step(ahead time.Duration) error {
	return steppedPostgres{p.postgres}.Step(ahead)
}

// Refuse makes COMMIT fail.
func (p torturedPostgres) Refuse(ctx context.Context, tx pgx.Tx) error {
	_, err := tx.Exec(ctx, "INSERT INTO "+p.schema+".child VALUES ('nobody')")
	return err
}

func (p torturedPostgres) Backup() (restore func() error, err error) {
	saves, restores := []string{}, []string{"SET LOCAL session_replication_role = replica"} // no triggers
	for _, table := range backedUp {
		saves = append(saves, "DROP TABLE IF EXISTS S.backup_"+table, "CREATE TABLE S.backup_"+table+" AS SELECT * FROM S."+table)
		restores = append(restores, "DELETE FROM S."+table, "INSERT INTO S."+table+" OVERRIDING SYSTEM VALUE SELECT * FROM S.backup_"+table)
	}
	run := func(statements []string) error {
		return pgx.BeginFunc(context.Background(), p.pool.pool, func(tx pgx.Tx) error {
			for _, statement := range statements {
				if _, err := tx.Exec(context.Background(), strings.ReplaceAll(statement, "S.", p.schema+"."), pgx.QueryExecModeExec); err != nil {
					return fmt.Errorf("%s: %w", statement, err)
				}
			}
			return nil
		})
	}
	return func() error { return run(restores) }, run(saves)
}
