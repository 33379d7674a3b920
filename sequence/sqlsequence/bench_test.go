package sqlsequence

import (
	"context"
	"database/sql"
	"errors"
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

// The benchmarks alternate between the store (leases and commits) and a floor. The floor is an update of a counter's row and an
// insert, in one transaction. If the commit also writes a row of the caller, so does the floor. "share" is the speed relative to
// the floor's, as the median of the rounds. "alone" is a Lease and a Commit, "loop" a writer whose commit leases the next
// number, and "Do" and "DoAll" are the same through a Stream.

func BenchmarkCommit_postgres(b *testing.B) {
	p := newPool(b)
	opened, err := OpenPool(p.pool, Options{Schema: p.schema})
	store := migrated(b, opened, err)
	require.NoError(b, store.CreateStream(b.Context(), "bench"))
	execPostgres(b, "CREATE TABLE "+p.schema+".counter (n BIGINT)", "INSERT INTO "+p.schema+".counter VALUES (0)", "CREATE TABLE "+p.schema+".floor (n BIGINT PRIMARY KEY, payload BYTEA)")
	floor := func(ctx context.Context, write func(pgx.Tx) error) error {
		return pgx.BeginTxFunc(ctx, p.pool, pgx.TxOptions{IsoLevel: pgx.ReadCommitted}, func(tx pgx.Tx) error {
			var n int64
			if err := tx.QueryRow(ctx, "UPDATE "+p.schema+".counter SET n = n + 1 RETURNING n").Scan(&n); err != nil {
				return err
			}
			_, err := tx.Exec(ctx, "INSERT INTO "+p.schema+".floor VALUES ($1, $2)", n, []byte("payload"))
			return errors.Join(err, write(tx))
		})
	}
	benchmarkStore[pgx.Tx](b, store, p.Insert, floor)
}

func BenchmarkCommit_sqlite(b *testing.B)        { benchmarkSqlite(b, "normal") }
func BenchmarkCommit_sqlite_synced(b *testing.B) { benchmarkSqlite(b, "full") }

func benchmarkSqlite(b *testing.B, sync string) {
	s := newSqlite(b)
	s.sync = sync
	s.db = s.open(b)
	opened, err := OpenSQLite(s.open(b), Options{})
	store := migrated(b, opened, err)
	require.NoError(b, store.CreateStream(b.Context(), "bench"))
	_, err = s.db.Exec("CREATE TABLE counter (n INTEGER); INSERT INTO counter VALUES (0); CREATE TABLE floor (n INTEGER PRIMARY KEY, payload BLOB)")
	require.NoError(b, err)
	turn := make(chan struct{}, 1) // like the store's
	floor := func(ctx context.Context, write func(*sql.Tx) error) error {
		turn <- struct{}{}
		defer func() { <-turn }()
		tx, err := s.db.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer tx.Rollback() // does nothing after Commit
		var n int64
		if err := tx.QueryRowContext(ctx, "UPDATE counter SET n = n + 1 RETURNING n").Scan(&n); err != nil {
			return err
		}
		_, err = tx.ExecContext(ctx, "INSERT INTO floor VALUES (?1, ?2)", n, []byte("payload"))
		if err = errors.Join(err, write(tx)); err != nil {
			return err
		}
		return tx.Commit()
	}
	benchmarkStore[*sql.Tx](b, store, s.Insert, floor)
}

// workload is a worker's part of a round: it writes as long as more returns true.
type workload func(ctx context.Context, more func() bool) error

func benchmarkStore[Tx any](b *testing.B, store sequence.Store[Tx], insert func(context.Context, Tx, string) error, floor func(context.Context, func(Tx) error) error) {
	stream, err := sequence.NewStream(store, "bench", sequence.Options[Tx]{})
	require.NoError(b, err)
	defer stream.Close(context.Background())
	for _, workers := range []int{1, 16} {
		for _, row := range []string{"bare", "row"} {
			var write sequence.Write[Tx]
			bare := func(ctx context.Context, more func() bool) (err error) {
				for err == nil && more() {
					err = floor(ctx, func(tx Tx) error {
						if write == nil {
							return nil
						}
						return insert(ctx, tx, newOperation().ID)
					})
				}
				return err
			}
			if row == "row" {
				write = func(ctx context.Context, tx Tx, e sequence.Entry) error { return insert(ctx, tx, e.Op) }
			}
			for _, c := range []struct {
				name string
				ours workload
			}{
				{"alone", leaseAndCommit(store, write)}, {"loop", commitAndLeaseNext(store, write)}, {"Do", throughDo(stream, write)}, {"DoAll", throughDoAll(stream, write)},
			} {
				b.Run(fmt.Sprintf("%s/%s/workers=%d", c.name, row, workers), func(b *testing.B) {
					const round = 320
					var rates, floors, shares []float64 // of each round
					for len(shares) == 0 || len(shares)*round < b.N {
						took := timed(b, workers, round, c.ours)
						beside := timed(b, workers, round, bare)
						rates, floors, shares = append(rates, round/took), append(floors, round/beside), append(shares, beside/took)
					}
					b.ReportMetric(median(rates), "commits/s")
					b.ReportMetric(median(floors), "floor/s")
					b.ReportMetric(median(shares), "share")
					b.ReportMetric(0, "ns/op")
				})
			}
		}
	}
}

func newOperation() sequence.Operation {
	return sequence.Operation{ID: fmt.Sprint(operations.Add(1), time.Now().UnixNano()), Duration: time.Minute}
}

func leaseOf(op sequence.Operation) seqstore.LeaseRequest {
	return seqstore.LeaseRequest{Stream: "bench", Op: op.ID, Duration: op.Duration}
}

func commitOf(e sequence.Entry) seqstore.CommitRequest {
	return seqstore.CommitRequest{Stream: "bench", Seq: e.Seq, Token: e.Token, Payload: []byte("payload")}
}

func leaseAndCommit[Tx any](store sequence.Store[Tx], write sequence.Write[Tx]) workload {
	return func(ctx context.Context, more func() bool) error {
		for more() {
			e, err := store.Lease(ctx, leaseOf(newOperation()))
			if err == nil {
				_, err = store.Commit(ctx, commitOf(e), write)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
}

func commitAndLeaseNext[Tx any](store sequence.Store[Tx], write sequence.Write[Tx]) workload {
	return func(ctx context.Context, more func() bool) (err error) {
		var e sequence.Entry
		for again := more(); again && err == nil; {
			if e.Seq == 0 {
				if e, err = store.Lease(ctx, leaseOf(newOperation())); err != nil {
					return err
				}
			}
			if again = more(); again {
				_, e, err = store.CommitAndLease(ctx, commitOf(e), leaseOf(newOperation()), write)
			} else {
				_, err = store.Commit(ctx, commitOf(e), write)
			}
		}
		return err
	}
}

func throughDo[Tx any](stream *sequence.Stream[Tx], write sequence.Write[Tx]) workload {
	return func(ctx context.Context, more func() bool) (err error) {
		for err == nil && more() {
			err = stream.Do(ctx, newOperation(), func(ctx context.Context, n *sequence.Number[Tx]) error {
				return n.Commit(ctx, []byte("payload"), write)
			})
		}
		return err
	}
}

func throughDoAll[Tx any](stream *sequence.Stream[Tx], write sequence.Write[Tx]) workload {
	return func(ctx context.Context, more func() bool) (err error) {
		for err == nil {
			var page []sequence.Operation
			for len(page) < 20 && more() {
				page = append(page, newOperation())
			}
			if len(page) == 0 {
				return nil
			}
			_, err = stream.DoAll(ctx, page, func(ctx context.Context, n *sequence.Number[Tx]) error {
				return n.Commit(ctx, []byte("payload"), write)
			})
		}
		return err
	}
}

func median(all []float64) float64 {
	slices.Sort(all)
	return all[len(all)/2]
}

var operations atomic.Int64

// timed lets workers make n commits in total, and returns the time in seconds.
func timed(b *testing.B, workers, n int, work workload) float64 {
	began, left := time.Now(), atomic.Int64{}
	left.Store(int64(n))
	var group sync.WaitGroup
	for range workers {
		group.Go(func() {
			if err := work(b.Context(), func() bool { return left.Add(-1) >= 0 }); err != nil {
				b.Error(err)
			}
		})
	}
	group.Wait()
	return time.Since(began).Seconds()
}
