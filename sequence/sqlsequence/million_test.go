package sqlsequence

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/jackc/pgx/v5"
	"github.com/stretchr/testify/require"
)

// closedEntries returns statements that create the given number of closed numbers in stream "s".
func closedEntries(numbers int, table, counter, blob, series string) []string {
	return []string{
		fmt.Sprintf(`INSERT INTO %s (stream, seq, op_id, kind, owner, state, token, leased_us, expires_us, closed_us, payload)
SELECT 's', n, 'closed' || n, 'kind', 'owner', CASE WHEN n %% 1000 = 0 THEN 'sealed' ELSE 'committed' END, 1, 1, 1, 1, CAST('payload' AS %s) FROM %s`, table, blob, series),
		fmt.Sprintf(`UPDATE %s SET next_seq = %d, sealed_through = %d`, counter, numbers+1, numbers),
	}
}

func closeEntries_sqlite(t testing.TB, s *sqlite, numbers int) {
	for _, statement := range closedEntries(numbers, "sequence_entry", "sequence_stream", "BLOB",
		fmt.Sprintf("(WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series WHERE n < %d) SELECT n FROM series)", numbers)) {
		_, err := s.db.Exec(statement)
		require.NoError(t, err)
	}
}

func closeEntries_postgres(t testing.TB, schema string, numbers int) {
	execPostgres(t, closedEntries(numbers, schema+".sequence_entry", schema+".sequence_stream", "BYTEA", fmt.Sprintf("(SELECT n, NULL FROM generate_series(1, %d) n) series(n, x)", numbers))...)
	execPostgres(t, `ANALYZE `+schema+`.sequence_entry`)
}

// plannedStatement is a statement, and the index that its plan must use; "" if that is the primary key.
type plannedStatement struct {
	statement string
	args      []any
	index     string
}

// frequentStatements returns the most frequent statements, by name.
func frequentStatements[Tx any](s *Store[Tx]) map[string]plannedStatement {
	q, lasts := s.sql, int64(time.Second/time.Microsecond)
	gaps, _ := inStates([]sequence.State{sequence.Gap})
	return map[string]plannedStatement{
		"lease":           {q.lease, []any{"s", "op", lasts, "kind", "owner"}, ""},
		"again":           {q.again, []any{"s", "op", lasts}, "entry_op"},
		"operation":       {q.find, []any{"s", "closed7"}, "entry_op"},
		"number":          {q.get, []any{"s", int64(7)}, ""},
		"renew":           {q.renew, []any{"s", int64(7), int64(1), lasts}, ""},
		"save":            {q.save, []any{"s", int64(7), int64(1), "partial", []byte{}}, ""},
		"commit":          {q.commit, []any{"s", int64(7), int64(1), []byte{}}, ""},
		"commit in order": {q.commitInOrder, []any{"s", int64(7), int64(1), []byte{}}, "entry_open"},
		"release":         {q.release, []any{"s", int64(7), int64(1)}, ""},
		"candidate":       {q.candidate, []any{"s"}, "entry_open"},
		"claim":           {q.claim, []any{"s", "cleaner", lasts, int64(7), "id"}, "entry_open"},
		"release claim":   {q.releaseClaim, []any{"s", "id"}, "entry_open"},
		"extend":          {q.extend, []any{"s", int64(7), int64(1), lasts}, ""},
		"gap":             {q.gap, []any{"s", int64(7), int64(1), "reason", false}, ""},
		"recovered":       {q.recovered, []any{"s", int64(7), int64(1), int64(8), false}, ""},
		"fill":            {q.fill, []any{"s", int64(7), "op", int64(0), []byte{}}, ""},
		"watermark":       {q.lowest, []any{"s"}, "entry_open"},
		"through":         {q.through, []any{"s"}, "entry_open"},
		"status":          {q.status, []any{"s"}, "entry_open"},
		"page":            {q.entries, []any{"s", int64(19000), int64(19100), 10}, ""},
		"gaps":            {strings.Replace(q.selected, "{{condition}}", gaps, 1), []any{"s", int64(1), 10}, "entry_gaps"},
		"uncleaned":       {strings.Replace(q.selected, "{{condition}}", "uncleaned", 1), []any{"s", int64(1), 10}, "entry_uncleaned"},
		"seal":            {q.sealGaps, []any{"s", int64(20000)}, "entry_gaps"},
		"forget":          {q.forget, []any{"s", int64(100), 10}, ""},
		"manual":          {q.manual, []any{"s", 10}, ""},
	}
}

// With many closed numbers every statement uses the indexes.
func TestClosedNumbersSlowNothingDown_postgres(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	p := newPostgres(t)
	store := p.Open(t).(*Store[*sql.Tx])
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	closeEntries_postgres(t, p.schema, 20_000)
	all := frequentStatements(store)
	all["commit and lease"] = plannedStatement{store.sql.commitAndLease, []any{"s", int64(7), int64(1), []byte{}, "op", int64(1), "kind", "owner"}, ""}
	for name, c := range all {
		plan := planOf(t, store, "EXPLAIN "+c.statement, c.args, 1)
		require.NotContains(t, plan, "Seq Scan on sequence_entry", "%s:\n%s", name, plan)
		require.Contains(t, plan, c.index, name)
	}
}

func TestClosedNumbersSlowNothingDown_sqlite(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	s := newSqlite(t)
	store := s.Open(t).(*Store[*sql.Tx])
	require.NoError(t, store.CreateStream(t.Context(), "s"))
	closeEntries_sqlite(t, s, 20_000)
	for name, c := range frequentStatements(store) {
		plan := planOf(t, store, "EXPLAIN QUERY PLAN "+c.statement, c.args, 4)
		require.Contains(t, plan, c.index, name)
		for line := range strings.Lines(plan) {
			alone := strings.TrimSpace(line)
			require.False(t, strings.HasPrefix(alone, "SCAN ") && !strings.Contains(alone, "SCAN sequence_stream") && !strings.Contains(alone, "SCAN sequence_manual") && alone != "SCAN s" && alone != "SCAN CONSTANT ROW", "%s:\n%s", name, plan)
		}
	}
}

// planOf returns the last column of a plan.
func planOf[Tx any](t *testing.T, s *Store[Tx], statement string, args []any, columns int) string {
	var plan strings.Builder
	err := s.on.query(t.Context(), statement, args, func(scan scan) error {
		cells, dest := make([]any, columns), make([]any, columns)
		for i := range cells {
			dest[i] = &cells[i]
		}
		err := scan(dest...)
		fmt.Fprintln(&plan, cells[columns-1])
		return err
	})
	require.NoError(t, err, statement)
	return plan.String()
}

// The benchmarks run each request alternately on a stream with a thousand closed numbers and on one with a million, and
// report the ratio of the medians: 1.1 means that a request on the million takes a tenth longer.

func BenchmarkAMillionClosed_postgres(b *testing.B) {
	open := func(numbers int) sequence.Store[pgx.Tx] {
		p := newPool(b)
		opened, err := OpenPool(p.pool, Options{Schema: p.schema})
		store := migrated(b, opened, err)
		require.NoError(b, store.CreateStream(b.Context(), "s"))
		closeEntries_postgres(b, p.schema, numbers)
		return store
	}
	benchmarkMillion(b, open(1000), open(1_000_000))
}

func BenchmarkAMillionClosed_sqlite(b *testing.B) {
	open := func(numbers int) sequence.Store[*sql.Tx] {
		s := newSqlite(b)
		opened, err := OpenSQLite(s.open(b), Options{})
		store := migrated(b, opened, err)
		require.NoError(b, store.CreateStream(b.Context(), "s"))
		closeEntries_sqlite(b, s, numbers)
		return store
	}
	benchmarkMillion(b, open(1000), open(1_000_000))
}

func benchmarkMillion[Tx any](b *testing.B, few, million sequence.Store[Tx]) {
	type request func(ctx context.Context, s sequence.Store[Tx]) error
	for _, c := range []struct {
		name string
		do   request
	}{
		{"commit", func(ctx context.Context, s sequence.Store[Tx]) error {
			e, err := s.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: fmt.Sprint("op", operations.Add(1)), Duration: time.Minute})
			if err == nil {
				_, err = s.Commit(ctx, seqstore.CommitRequest{Stream: "s", Seq: e.Seq, Token: e.Token}, nil)
			}
			return err
		}},
		{"gap", func(ctx context.Context, s sequence.Store[Tx]) error {
			e, err := s.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: fmt.Sprint("op", operations.Add(1)), Duration: time.Millisecond})
			for found := false; err == nil && !found; {
				e, found, err = s.Claim(ctx, seqstore.ClaimRequest{Stream: "s", Duration: time.Minute})
			}
			if err == nil {
				_, err = s.Resolve(ctx, seqstore.ResolveRequest{Stream: "s", Seq: e.Seq, Token: e.Token, Outcome: sequence.OutcomeGap}, nil)
			}
			return err
		}},
		{"seal", func(ctx context.Context, s sequence.Store[Tx]) error { _, err := s.Seal(ctx, "s", 0); return err }},
		{"status", func(ctx context.Context, s sequence.Store[Tx]) error { _, err := s.Status(ctx, "s"); return err }},
		{"page", func(ctx context.Context, s sequence.Store[Tx]) error {
			status, err := s.Status(ctx, "s")
			if err == nil {
				_, err = s.Read(ctx, seqstore.ReadRequest{Stream: "s", From: status.Last - 20, Limit: 20})
			}
			return err
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			var took [2][]time.Duration
			for range max(b.N, 2) {
				for i, s := range []sequence.Store[Tx]{few, million} {
					began := time.Now()
					if err := c.do(context.Background(), s); err != nil {
						b.Fatal(err)
					}
					took[i] = append(took[i], time.Since(began))
				}
			}
			for i := range took {
				slices.Sort(took[i])
			}
			median := func(all []time.Duration) float64 { return float64(all[len(all)/2].Nanoseconds()) }
			b.ReportMetric(median(took[1]), "ns/million")
			b.ReportMetric(median(took[1])/median(took[0]), "million/few")
		})
	}
}
