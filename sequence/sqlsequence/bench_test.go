package sqlsequence

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// The benchmarks run lease and commit, with a row of the caller's own, and the floor in turns:
// a bare update of a counter's row and an insert, in one transaction. "share" is the part of the floor's
// speed: the median of the rounds.

func BenchmarkCommit_postgres(b *testing.B) {
	p := newPool(b)
	opened, err := OpenPool(p.pool, Options{Schema: p.schema})
	store := migrated(b, opened, err)
	require.NoError(b, store.CreateStream(b.Context(), "bench"))
	execPostgres(b, "CREATE TABLE "+p.schema+".counter (n BIGINT)", "INSERT INTO "+p.schema+".counter VALUES (0)", "CREATE TABLE "+p.schema+".floor (n BIGINT PRIMARY KEY, payload BYTEA)")
	floor := func(ctx context.Context) error {
		return pgx.BeginFunc(ctx, p.pool, func(tx pgx.Tx) error {
			var n int64
			if err := tx.QueryRow(ctx, "UPDATE "+p.schema+".counter SET n = n + 1 RETURNING n").Scan(&n); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO "+p.schema+".floor VALUES ($1, $2)", n, []byte("payload"))
			return err
		})
	}
	beside[pgx.Tx](b, store, p.Insert, floor)
}

func BenchmarkCommit_sqlite(b *testing.B) {
	s := newSqlite(b)
	opened, err := OpenSQLite(s.open(b), Options{})
	store := migrated(b, opened, err)
	require.NoError(b, store.CreateStream(b.Context(), "bench"))
	_, err = s.db.Exec("CREATE TABLE counter (n INTEGER); INSERT INTO counter VALUES (0); CREATE TABLE floor (n INTEGER PRIMARY KEY, payload BLOB)")
	require.NoError(b, err)
	var turn sync.Mutex // as the store has it
	floor := func(ctx context.Context) error {
		turn.Lock()
		defer turn.Unlock()
		return transact(ctx, s.db, nil, func(_ session, tx *sql.Tx) error {
			var n int64
			if err := tx.QueryRowContext(ctx, "UPDATE counter SET n = n + 1 RETURNING n").Scan(&n); err != nil {
				return err
			}
			_, err := tx.ExecContext(ctx, "INSERT INTO floor VALUES (?1, ?2)", n, []byte("payload"))
			return err
		})
	}
	beside[*sql.Tx](b, store, s.Insert, floor)
}

func beside[Tx any](b *testing.B, store sequence.Store[Tx], insert func(context.Context, Tx, string) error, floor func(context.Context) error) {
	for _, workers := range []int{1, 16} {
		for _, c := range []struct {
			name  string
			write sequence.Write[Tx]
		}{
			{"bare", nil},
			{"with-a-row", func(ctx context.Context, tx Tx, e sequence.Entry) error { return insert(ctx, tx, e.Op) }},
		} {
			b.Run(fmt.Sprintf("%s/workers=%d", c.name, workers), func(b *testing.B) {
				const round = 100
				var ours, theirs, shares []float64 // of each round
				for len(shares) == 0 || len(shares)*round < b.N {
					took := timed(b, workers, round, func(ctx context.Context) error {
						op := fmt.Sprint(operations.Add(1), time.Now().UnixNano())
						e, err := store.Lease(ctx, seqstore.LeaseRequest{Stream: "bench", Op: op, Duration: time.Minute})
						if err == nil {
							_, err = store.Commit(ctx, seqstore.CommitRequest{Stream: "bench", Seq: e.Seq, Token: e.Token, Payload: []byte("payload")}, c.write)
						}
						return err
					})
					beside := timed(b, workers, round, floor)
					ours, theirs, shares = append(ours, round/took), append(theirs, round/beside), append(shares, beside/took)
				}
				b.ReportMetric(median(ours), "commits/s")
				b.ReportMetric(median(theirs), "floor/s")
				b.ReportMetric(median(shares), "share")
				b.ReportMetric(0, "ns/op")
			})
		}
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

var operations atomic.Int64

// timed runs do n times on some workers, and returns the seconds that it took.
func timed(b *testing.B, workers, n int, do func(context.Context) error) float64 {
	began, left := time.Now(), atomic.Int64{}
	left.Store(int64(n))
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			for left.Add(-1) >= 0 {
				if err := do(context.Background()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	group.Wait()
	return time.Since(began).Seconds()
}
