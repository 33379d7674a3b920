package sqlsequence

import (
	"database/sql"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
	"github.com/stretchr/testify/require"
)

// stepped returns the dialect with a clock that is ahead by the time in a table of the test.
func stepped(d dialect, table string) dialect {
	d.now = "(" + d.now + " + (SELECT us FROM " + table + "))"
	return d
}

func stepTable(table string) []string {
	return []string{"CREATE TABLE " + table + " (us BIGINT NOT NULL)", "INSERT INTO " + table + " VALUES (0)"}
}

// steppedSqlite is a file whose clock can be stepped.
type steppedSqlite struct{ *sqlite }

func newSteppedSqlite(t testing.TB) steppedSqlite {
	s := steppedSqlite{newSqlite(t)}
	for _, statement := range stepTable("clock") {
		_, err := s.db.Exec(statement)
		require.NoError(t, err)
	}
	return s
}

func (s steppedSqlite) Open(t testing.TB) sequence.Store[*sql.Tx] {
	store, err := newStore[*sql.Tx](&sqliteDatabase{db: s.open(t), turn: make(chan struct{}, 1)}, stepped(sqliteDialect, "clock"), Options{Audit: true}, nil)
	return migrated(t, store, err)
}

func (s steppedSqlite) Step(ahead time.Duration) error {
	_, err := s.db.Exec(`UPDATE clock SET us = ?1`, ahead.Microseconds())
	return err
}

// steppedPostgres is a schema whose clock can be stepped.
type steppedPostgres struct{ *postgres }

func newSteppedPostgres(t testing.TB) steppedPostgres {
	p := steppedPostgres{newPostgres(t)}
	execPostgres(t, stepTable(p.schema+".clock")...)
	return p
}

func (p steppedPostgres) Open(t testing.TB) sequence.Store[*sql.Tx] {
	store, err := newStore[*sql.Tx](newSQLDatabase(p.db), stepped(postgresDialect, p.schema+".clock"), Options{Schema: p.schema, Audit: true}, nil)
	return migrated(t, store, err)
}

func (p steppedPostgres) Step(ahead time.Duration) error {
	_, err := p.db.Exec(`UPDATE `+p.schema+`.clock SET us = $1`, ahead.Microseconds())
	return err
}

// The clock was ahead for a moment. A lease, a renewal, a claim or a pause from that moment is not prolonged by the
// step.
func TestTrap_T200_TheClockWasAhead(t *testing.T) {
	t.Parallel()
	s, p := newSteppedSqlite(t), newSteppedPostgres(t)
	t.Run("sqlite", func(t *testing.T) { t.Parallel(); clockWasAhead(t, s.Open(t), s.Step) })
	t.Run("postgres", func(t *testing.T) { t.Parallel(); clockWasAhead(t, p.Open(t), p.Step) })
}

func clockWasAhead(t *testing.T, store sequence.Store[*sql.Tx], step func(time.Duration) error) {
	const ttl = 2 * time.Second
	ctx := t.Context()
	require.NoError(t, store.CreateStream(ctx, "s"))
	lease := func(op string) sequence.Entry {
		e, err := store.Lease(ctx, seqstore.LeaseRequest{Stream: "s", Op: op, Duration: ttl})
		require.NoError(t, err)
		return e
	}
	renew := func(e sequence.Entry) {
		_, err := store.Renew(ctx, seqstore.RenewRequest{Stream: "s", Seq: e.Seq, Token: e.Token, Duration: ttl})
		require.NoError(t, err)
	}
	cleaner, err := sequence.NewCleaner(store, "s", sequence.CleanerOptions[*sql.Tx]{})
	require.NoError(t, err)
	for _, left := range []string{"leased", "leased again", "renewed", "claimed", "extended", "failed", "renewed before the step back was seen"} {
		// Claims go in order, so each case uses new numbers at the end of the stream.
		require.NoError(t, step(0))
		before := lease(left)
		require.NoError(t, step(time.Hour))
		switch left {
		case "leased":
			_ = lease(left + " ahead")
			require.NoError(t, store.Release(ctx, seqstore.ReleaseRequest{Stream: "s", Seq: before.Seq, Token: before.Token}))
		case "leased again":
			require.NoError(t, step(ttl/4))
			lease(left)
			require.NoError(t, step(time.Hour))
			require.NoError(t, store.Expire(ctx, "s", before.Seq))
			ahead := lease(left + " ahead")
			lease(ahead.Op)
		case "renewed", "renewed before the step back was seen":
			require.NoError(t, store.Expire(ctx, "s", before.Seq))
			ahead := lease(left + " ahead")
			renew(ahead)
			if left != "renewed" {
				require.NoError(t, step(0))
				renew(ahead)
			}
		case "claimed", "extended", "failed":
			claim, ok, err := store.Claim(ctx, seqstore.ClaimRequest{Stream: "s", Duration: ttl})
			require.NoError(t, err)
			require.True(t, ok)
			req := seqstore.RenewRequest{Stream: "s", Seq: claim.Seq, Token: claim.Token, Duration: ttl}
			if left != "claimed" {
				require.NoError(t, store.ExtendClaim(ctx, req))
			}
			if left == "failed" {
				_, err = store.Resolve(ctx, seqstore.ResolveRequest{Stream: "s", Seq: claim.Seq, Token: claim.Token, Outcome: seqstore.OutcomeFailed, RetryAfter: ttl}, nil)
				require.NoError(t, err)
			}
		}
		require.NoError(t, step(0))
		began := time.Now()
		_, ok, err := store.Claim(ctx, seqstore.ClaimRequest{Stream: "s", Duration: time.Millisecond})
		require.NoError(t, err)
		if left == "leased" || left == "renewed" {
			require.False(t, ok, "%s: its holder may trust in it still", left)
		}
		require.Eventually(t, func() bool {
			_, err := cleaner.Sweep(ctx)
			require.NoError(t, err)
			status, err := store.Status(ctx, "s")
			require.NoError(t, err)
			return status.Open == 0
		}, ttl+10*time.Second, 20*time.Millisecond, left)
		t.Log(left, time.Since(began))
	}
	require.NoError(t, cleaner.Close(ctx))
}
