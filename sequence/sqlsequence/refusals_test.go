package sqlsequence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// refusedWrites are writes that the database refuses at COMMIT.
type refusedWrites[Tx any] map[string]sequence.Write[Tx]

// executor runs a statement of the application.
type executor[Tx any] func(ctx context.Context, tx Tx, statement string) error

func sqlExec(ctx context.Context, tx *sql.Tx, statement string) error {
	_, err := tx.ExecContext(ctx, statement)
	return err
}

func pgxExec(ctx context.Context, tx pgx.Tx, statement string) error {
	_, err := tx.Exec(ctx, statement)
	return err
}

// createRefusingTables creates two tables of the application, one with a deferred constraint, and one with a trigger that
// raises the inserted error code.
func (p *postgres) createRefusingTables(t *testing.T) {
	execPostgres(t,
		"CREATE TABLE "+p.schema+".child (parent TEXT REFERENCES "+p.schema+".own DEFERRABLE INITIALLY DEFERRED)",
		"CREATE TABLE "+p.schema+".raising (code TEXT)",
		"CREATE FUNCTION "+p.schema+".raise() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION 'refused' USING ERRCODE = NEW.code; END $$",
		"CREATE CONSTRAINT TRIGGER raise AFTER INSERT ON "+p.schema+".raising DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION "+p.schema+".raise()")
}

func refusingOnPostgres[Tx any](schema string, run executor[Tx]) refusedWrites[Tx] {
	all := refusedWrites[Tx]{
		"deferred constraint": func(ctx context.Context, tx Tx, _ sequence.Entry) error {
			return run(ctx, tx, "INSERT INTO "+schema+".child VALUES ('nobody')")
		},
		"ignored violation": func(ctx context.Context, tx Tx, _ sequence.Entry) error {
			_ = run(ctx, tx, "INSERT INTO "+schema+".own VALUES ('a'), ('a')")
			return nil
		},
	}
	for _, code := range []string{"P0001", "40001", "40P01", "23514", "AB123", "22023", "53100"} {
		all[code] = func(ctx context.Context, tx Tx, _ sequence.Entry) error {
			return run(ctx, tx, "INSERT INTO "+schema+".raising VALUES ('"+code+"')")
		}
	}
	return all
}

func TestTrap_T197_ARefusalAtCommitIsAnAnswer(t *testing.T) {
	t.Parallel()
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		p := newPostgres(t)
		p.createRefusingTables(t)
		writes := refusingOnPostgres(p.schema, sqlExec)
		writes["rolled back"] = func(_ context.Context, tx *sql.Tx, _ sequence.Entry) error { return tx.Rollback() }
		refusals(t, p.Open(t), writes)
	})
	t.Run("pool", func(t *testing.T) {
		t.Parallel()
		p := newPool(t)
		p.createRefusingTables(t)
		writes := refusingOnPostgres(p.schema, pgxExec)
		writes["rolled back"] = func(ctx context.Context, tx pgx.Tx, _ sequence.Entry) error { return tx.Rollback(ctx) }
		refusals(t, p.Open(t), writes)
	})
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		s := newSqlite(t)
		refusals(t, s.Open(t), s.refusedWrites(t))
	})
}

func (s *sqlite) refusedWrites(t *testing.T) refusedWrites[*sql.Tx] {
	_, err := s.db.Exec("CREATE TABLE child (parent TEXT REFERENCES own DEFERRABLE INITIALLY DEFERRED)")
	require.NoError(t, err)
	return refusedWrites[*sql.Tx]{
		"deferred constraint": func(ctx context.Context, tx *sql.Tx, _ sequence.Entry) error {
			return errors.Join(sqlExec(ctx, tx, "PRAGMA defer_foreign_keys = on"), sqlExec(ctx, tx, "INSERT INTO child VALUES ('nobody')"))
		},
		"rolled back": func(_ context.Context, tx *sql.Tx, _ sequence.Entry) error { return tx.Rollback() },
	}
}

func refusals[Tx any](t *testing.T, store sequence.Store[Tx], writes refusedWrites[Tx]) {
	ctx := t.Context()
	require.NoError(t, store.CreateStream(ctx, "s"))
	s, err := sequence.NewStream(store, "s", sequence.Options[Tx]{})
	require.NoError(t, err)
	for name, write := range writes {
		began := time.Now()
		tries := 0
		err = s.Do(ctx, sequence.Operation{ID: name, Duration: time.Hour}, func(ctx context.Context, n *sequence.Number[Tx]) error {
			return n.Commit(ctx, []byte("x"), func(ctx context.Context, tx Tx, e sequence.Entry) error {
				tries++
				return write(ctx, tx, e)
			})
		})
		require.ErrorIs(t, err, sequence.ErrRefused, name)
		require.True(t, abstractions.NotApplied(err), name)
		require.Equal(t, 1, tries, name)
		require.Less(t, time.Since(began), 20*time.Second, name)
		e, err := store.Find(ctx, "s", name)
		require.NoError(t, err)
		require.Equal(t, sequence.Gap, e.State, name)
		_, err = store.Fill(ctx, sequence.FillRequest{Stream: "s", Seq: e.Seq, Op: name}, write)
		require.ErrorIs(t, err, sequence.ErrRefused, name)

		// DoAll, whose commit leases the next number, also reports the refusal.
		done, err := s.DoAll(ctx, []sequence.Operation{{ID: name + " 1", Duration: time.Hour}, {ID: name + " 2", Duration: time.Hour}}, func(ctx context.Context, n *sequence.Number[Tx]) error {
			return n.Commit(ctx, []byte("x"), write)
		})
		require.ErrorIs(t, err, sequence.ErrRefused, name)
		require.Zero(t, done)

		// A cleaner counts the refusal.
		lost, err := store.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: name + " lost", Duration: time.Millisecond})
		require.NoError(t, err)
		require.NoError(t, store.Save(ctx, seqstore.SaveRequest{Stream: "s", Seq: lost.Seq, Token: lost.Token, Work: sequence.Work{Phase: sequence.Completed, Data: []byte(name)}}))
		c, err := sequence.NewCleaner(store, "s", sequence.CleanerOptions[Tx]{Write: write, MaxAttempts: 2, RetryAfter: time.Millisecond})
		require.NoError(t, err)
		require.EventuallyWithT(t, func(collect *assert.CollectT) {
			_, err := c.Sweep(ctx)
			assert.NoError(collect, err)
			e, err := store.Find(ctx, "s", lost.Op)
			assert.NoError(collect, err)
			assert.Equal(collect, sequence.ReasonRecoveryFailed, e.Reason)
		}, 20*time.Second, 5*time.Millisecond, name)
		e, err = store.Find(ctx, "s", lost.Op)
		require.NoError(t, err)
		require.Equal(t, 2, e.Attempts)
		require.Contains(t, e.LastError, sequence.ErrRefused.Error())
		items, err := store.Manual(ctx, "s", 1000)
		require.NoError(t, err)
		require.Equal(t, name, string(items[len(items)-1].Payload))
		require.NoError(t, c.Close(ctx))
	}
	require.NoError(t, s.Close(ctx))
	status, err := store.Status(ctx, "s")
	require.NoError(t, err)
	require.Zero(t, status.Open)
}

// The store notices that the write itself has committed the transaction.
func TestAWriteThatCommitsByItselfIsFound_postgres(t *testing.T) {
	p := newPostgres(t)
	store := p.Open(t)
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "o", Duration: time.Hour})
	require.NoError(t, err)
	_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, func(_ context.Context, tx *sql.Tx, _ sequence.Entry) error { return tx.Commit() })
	require.NoError(t, err)
}

// A write that itself sends ROLLBACK is not reported as committed.
func TestTrap_T197_AWriteThatRollsBackIsNotCommitted(t *testing.T) {
	s, p := newSqlite(t), newPool(t)
	rollsBack(t, s.Open(t), sqlExec)
	rollsBack(t, p.Open(t), pgxExec)
}

func rollsBack[Tx any](t *testing.T, store sequence.Store[Tx], run executor[Tx]) {
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "o", Duration: time.Hour})
	require.NoError(t, err)
	_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, func(ctx context.Context, tx Tx, _ sequence.Entry) error {
		return run(ctx, tx, "ROLLBACK")
	})
	require.ErrorIs(t, err, sequence.ErrRefused)
	require.NoError(t, store.Release(t.Context(), seqstore.ReleaseRequest{Stream: "s", Seq: e.Seq, Token: e.Token}))
}

// Requests that joined a writer's transaction are not reported as refused.
func TestTrap_T197_QueuedStatementsAreNotRefused_sqlite(t *testing.T) {
	s := newSqlite(t)
	write := s.refusedWrites(t)["deferred constraint"]
	store := s.Open(t).(*Store[*sql.Tx])
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	lease := func() error {
		_, err := store.Lease(context.Background(), seqstore.LeaseRequest{Stream: "s", Op: "queued", Duration: time.Hour})
		return err
	}
	e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "o", Duration: time.Hour})
	require.NoError(t, err)
	database := store.on.(*sqliteDatabase)
	waiting := func() int {
		database.mu.Lock()
		defer database.mu.Unlock()
		return len(database.waiting)
	}
	queued := make(chan error, 1)
	_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, func(ctx context.Context, tx *sql.Tx, e sequence.Entry) error {
		go func() { queued <- lease() }()
		assert.Eventually(t, func() bool { return waiting() == 1 }, time.Minute, time.Millisecond)
		return write(ctx, tx, e)
	})
	require.ErrorIs(t, err, sequence.ErrRefused)
	queuedErr := <-queued
	require.ErrorIs(t, queuedErr, leasing.ErrThrottled)
	require.NotErrorIs(t, queuedErr, sequence.ErrRefused)
	require.NoError(t, lease(), "it is asked again")
}

// If the connection is cut inside the write, the outcome is unknown, regardless of the write's
// error.
func TestTrap_T203_AConnectionIsCutInsideTheWrite_postgres(t *testing.T) {
	t.Parallel()
	own := errors.New("the write's own words")
	t.Run("postgres", func(t *testing.T) {
		p := newPostgres(t)
		cutInside(t, p.Open(t), p.Rows, func(ctx context.Context, tx *sql.Tx, e sequence.Entry, first bool) error {
			var pid int
			if err := tx.QueryRowContext(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil || !first {
				return errors.Join(err, p.Insert(ctx, tx, e.Op))
			}
			execPostgres(t, fmt.Sprintf("SELECT pg_terminate_backend(%d, 10000)", pid))
			if e.Op == "silent" { // it sends no further statement
				return own
			}
			return p.Insert(ctx, tx, e.Op)
		})
	})
	t.Run("pool", func(t *testing.T) {
		p := newPool(t)
		cutInside(t, p.Open(t), p.Rows, func(ctx context.Context, tx pgx.Tx, e sequence.Entry, first bool) error {
			var pid int
			if err := tx.QueryRow(ctx, "SELECT pg_backend_pid()").Scan(&pid); err != nil || !first {
				return errors.Join(err, p.Insert(ctx, tx, e.Op))
			}
			execPostgres(t, fmt.Sprintf("SELECT pg_terminate_backend(%d, 10000)", pid))
			if e.Op == "silent" {
				return own
			}
			return p.Insert(ctx, tx, e.Op)
		})
	})
}

func cutInside[Tx any](t *testing.T, store sequence.Store[Tx], rows func(testing.TB) []string, write func(ctx context.Context, tx Tx, e sequence.Entry, first bool) error) {
	ctx := t.Context()
	require.NoError(t, store.CreateStream(ctx, "s"))
	s, err := sequence.NewStream(store, "s", sequence.Options[Tx]{})
	require.NoError(t, err)
	for _, op := range []string{"answered", "silent"} {
		tries := 0
		require.NoError(t, s.Do(ctx, sequence.Operation{ID: op, Duration: 30 * time.Second}, func(ctx context.Context, n *sequence.Number[Tx]) error {
			return n.Commit(ctx, []byte("x"), func(ctx context.Context, tx Tx, e sequence.Entry) error {
				tries++
				return write(ctx, tx, e, tries == 1)
			})
		}), op)
		require.Equal(t, 2, tries)
	}
	lost, err := store.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: "lost", Duration: time.Millisecond})
	require.NoError(t, err)
	require.NoError(t, store.Save(ctx, seqstore.SaveRequest{Stream: "s", Seq: lost.Seq, Token: lost.Token, Work: sequence.Work{Phase: sequence.Completed}}))
	first := true
	c, err := sequence.NewCleaner(store, "s", sequence.CleanerOptions[Tx]{Write: func(ctx context.Context, tx Tx, e sequence.Entry) error {
		defer func() { first = false }()
		return write(ctx, tx, e, first)
	}})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		_, err := c.Sweep(ctx)
		assert.NoError(collect, err)
		e, err := store.Find(ctx, "s", "lost")
		assert.NoError(collect, err)
		assert.Equal(collect, sequence.Recovered, e.State)
	}, 20*time.Second, 5*time.Millisecond)
	e, err := store.Find(ctx, "s", "lost")
	require.NoError(t, err)
	require.Zero(t, e.Attempts, "it was no failure of the recovery")
	require.NoError(t, c.Close(ctx))
	require.NoError(t, s.Close(ctx))
	require.ElementsMatch(t, []string{"answered", "silent", "lost"}, rows(t))
}

// A timeout of the application's own write is returned unchanged, although it closes the
// connection.
func TestAnOwnTimeoutIsReturned_postgres(t *testing.T) {
	p := newPool(t)
	store := p.Open(t)
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	s, err := sequence.NewStream(store, "s", sequence.Options[pgx.Tx]{})
	require.NoError(t, err)
	tries := 0
	err = s.Do(t.Context(), sequence.Operation{ID: "o", Duration: time.Hour}, func(ctx context.Context, n *sequence.Number[pgx.Tx]) error {
		return n.Commit(ctx, nil, func(ctx context.Context, tx pgx.Tx, _ sequence.Entry) error {
			tries++
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			return pgxExec(short, tx, "SELECT pg_sleep(60)")
		})
	})
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, 1, tries)
	var refused *pgconn.PgError
	require.NotErrorIs(t, err, sequence.ErrRefused)
	require.False(t, errors.As(err, &refused))
	require.NoError(t, s.Close(t.Context()))
}
