package sqlsequence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// To the server, a write that does nothing looks like a process that is paused or cut off, so the
// tests below use such writes.

// standstillLimit is the time for which a stream may stand still after its longest lease.
const standstillLimit = 10 * time.Second

// pausedIn runs a request whose write is paused by pause until the test has seen that the stream
// advances.
func pausedIn[Tx any](t *testing.T, store, other *Store[Tx], pause func(ctx context.Context, tx Tx) error, request func(ctx context.Context, write seqstore.Write[Tx]) error) {
	t.Helper()
	inside, resume := make(chan struct{}), make(chan struct{})
	var once sync.Once
	result := make(chan error, 1)
	go func() {
		result <- request(t.Context(), func(ctx context.Context, tx Tx, _ sequence.Entry) error {
			once.Do(func() { close(inside) })
			err := pause(ctx, tx)
			<-resume
			return err
		})
	}()
	<-inside
	ctx, cancel := context.WithTimeout(t.Context(), time.Second+standstillLimit)
	defer cancel()
	e, err := other.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: fmt.Sprint("goes on ", time.Now().UnixNano()), Duration: time.Minute})
	require.NoError(t, err, "nobody can lease a number")
	_, err = other.Commit(ctx, seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, nil)
	require.NoError(t, err)
	cleaner, err := sequence.NewCleaner[Tx](other, "s", sequence.CleanerOptions[Tx]{})
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		_, err := cleaner.Sweep(ctx)
		assert.NoError(c, err)
		status, err := other.Status(ctx, "s")
		assert.NoError(c, err)
		assert.Zero(c, status.Open, "the number of a paused process is not closed")
	}, time.Second+standstillLimit, 50*time.Millisecond)
	require.NoError(t, cleaner.Close(t.Context()))
	close(resume)
	require.Error(t, <-result, "the server had ended its transaction")
}

func TestTrap_T196_APausedWriteStopsNoStream_postgres(t *testing.T) {
	t.Parallel()
	pauses := map[string]func(context.Context, pgx.Tx) error{
		"idle": func(context.Context, pgx.Tx) error { return nil },
		"statement": func(_ context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(context.Background(), "SELECT pg_sleep(60)")
			return err
		},
		"reading": func(_ context.Context, tx pgx.Tx) error { // more than the buffers hold
			_, err := tx.Query(context.Background(), "SELECT repeat('x', 1000000) FROM generate_series(1, 200)")
			return err
		},
	}
	for name, pause := range pauses {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPool(t)
			store, other := p.Open(t).(*Store[pgx.Tx]), p.Open(t).(*Store[pgx.Tx])
			require.NoError(t, store.CreateStream(t.Context(), "s"))
			lease := func(op string, d time.Duration) sequence.Entry {
				e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: op, Duration: d})
				require.NoError(t, err)
				return e
			}
			for _, inOrder := range []bool{false, true} {
				written := lease(fmt.Sprint("written ", inOrder), time.Second)
				pausedIn(t, store, other, pause, func(ctx context.Context, write seqstore.Write[pgx.Tx]) error {
					_, err := store.Commit(ctx, seqstore.CommitRequest{Stream: "s", Seq: written.Seq, Token: written.Token, InOrder: inOrder}, write)
					return err
				})
			}
			lease("recovered", time.Millisecond)
			var claim sequence.Entry
			require.Eventually(t, func() bool {
				var ok bool
				var err error
				claim, ok, err = store.Claim(t.Context(), seqstore.ClaimRequest{Stream: "s", Duration: time.Second})
				return ok && err == nil
			}, time.Minute, 5*time.Millisecond)
			pausedIn(t, store, other, pause, func(ctx context.Context, write seqstore.Write[pgx.Tx]) error {
				_, err := store.Resolve(ctx, seqstore.ResolveRequest{Stream: "s", Seq: claim.Seq, Token: claim.Token, Outcome: sequence.OutcomeRecovered}, write)
				return err
			})
			pausedIn(t, store, other, pause, func(ctx context.Context, write seqstore.Write[pgx.Tx]) error {
				_, err := store.Fill(ctx, seqstore.FillRequest{Stream: "s", Seq: claim.Seq, Op: claim.Op}, write)
				return err
			})
			require.Empty(t, p.Rows(t))
		})
	}
}

// A process that is paused between two statements of the store keeps the locks only until the
// server's limit.
func TestTrap_T196_APauseBetweenStatementsStopsNoStream_postgres(t *testing.T) {
	t.Parallel()
	p, q := newPostgres(t), newPool(t)
	pausedBetween(t, p.Open(t).(*Store[*sql.Tx]))
	pausedBetween(t, q.Open(t).(*Store[pgx.Tx])) // here single statements also run in a transaction
}

func pausedBetween[Tx any](t *testing.T, store *Store[Tx]) {
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	err := store.within(t.Context(), false, func(on session, _ Tx) error {
		if _, err := store.lock(t.Context(), on, "s"); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(t.Context(), standstillLimit)
		defer cancel()
		_, err := store.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: "o", Duration: time.Minute})
		return err
	})
	require.Error(t, err)
	e, err := store.Find(t.Context(), "s", "o")
	require.NoError(t, err, "the lock was kept")
	require.Equal(t, int64(1), e.Seq)
}

// The application's own limits are kept where they are shorter.
func TestLimitsOfTheApplicationAreKept_postgres(t *testing.T) {
	p := newPostgres(t)
	p.Open(t)
	store, err := OpenPostgres(connectWith(t, "statement_timeout", "300"), Options{Schema: p.schema})
	store = migrated(t, store, err)
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "o", Duration: time.Hour})
	require.NoError(t, err)
	_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, func(ctx context.Context, tx *sql.Tx, _ sequence.Entry) error {
		var idle, statement string
		err := tx.QueryRowContext(ctx, "SELECT current_setting('idle_in_transaction_session_timeout'), current_setting('statement_timeout')").Scan(&idle, &statement)
		require.Equal(t, "300ms", statement)
		require.NotEqual(t, "0", idle)
		return err
	})
	require.NoError(t, err)
}

// A lease may last longer than the largest value that the server allows for its limits.
func TestALongLeaseIsCommitted_postgres(t *testing.T) {
	p := newPostgres(t)
	store := p.Open(t)
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "o", Duration: seqstore.MaxDuration})
	require.NoError(t, err)
	_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, func(ctx context.Context, tx *sql.Tx, e sequence.Entry) error {
		return p.Insert(ctx, tx, e.Op)
	})
	require.NoError(t, err)
}

// A write that outlasts its lease is also ended in a healthy process.
func TestTrap_T196_AWriteThatOutlastsItsLeaseIsEnded(t *testing.T) {
	t.Parallel()
	s, p := newSqlite(t), newPostgres(t)
	for name, store := range map[string]sequence.Store[*sql.Tx]{"sqlite": s.Open(t), "postgres": p.Open(t)} {
		t.Run(name, func(t *testing.T) {
			require.NoError(t, store.CreateStream(t.Context(), "s"))
			e, err := store.Lease(t.Context(), seqstore.LeaseRequest{Stream: "s", Op: "o", Duration: time.Second})
			require.NoError(t, err)
			ended := errors.New("its context has ended")
			began := time.Now()
			_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, func(ctx context.Context, _ *sql.Tx, _ sequence.Entry) error {
				select {
				case <-ctx.Done():
					return ended
				case <-time.After(time.Minute):
					return nil
				}
			})
			require.ErrorIs(t, err, ended)
			require.Less(t, time.Since(began), standstillLimit)
			_, err = store.Commit(t.Context(), seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, nil)
			require.ErrorIs(t, err, sequence.ErrLate)
		})
	}
}
