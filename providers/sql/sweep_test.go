package sqllease

import (
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// countRows counts what is left in a table.
func countRows(t testing.TB, p *Provider, table string) (n int) {
	t.Helper()
	count := func(scan scan) error { return scan(&n) }
	var err error
	switch b := p.store.backend.(type) {
	case *postgres:
		err = b.db.query(bounded(t), inTables(b.naming.schema+"."+b.naming.table, "SELECT count(*) FROM "+table), nil, count)
	case *sqlite:
		err = b.db.read(bounded(t), inTables(b.naming.table, "SELECT count(*) FROM "+table), nil, count)
	}
	require.NoError(t, err)
	return n
}

// T28: names that are used once don't pile up, and T54: their tokens rise
// though they were forgotten.
func TestTrap_T28_OneOffNamesAreForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("retention", "1ms")
		var last Claim
		for i := range 2*sweepBatch + 10 {
			claim, err := p.Store().Acquire(ctx, claimOf(fmt.Sprintf("reply/%d", i), time.Minute))
			require.NoError(t, err)
			_, err = p.Store().Release(ctx, releaseOf(claim))
			require.NoError(t, err)
			last = claim
		}
		require.LessOrEqual(t, countRows(t, p, "{lease}"), 2*sweepEvery, "without anybody calling Sweep")

		idle(t, p, time.Second)
		_, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Zero(t, countRows(t, p, "{lease}"))
		again, err := p.Store().Acquire(ctx, claimOf(last.Name, time.Minute))
		require.NoError(t, err)
		require.Greater(t, again.Token, last.Token)
	})
}

// idle makes all names look unused for longer than they are.
func idle(t testing.TB, p *Provider, by time.Duration) {
	t.Helper()
	execute(bounded(t), t, p.store.backend, fmt.Sprintf("UPDATE {lease} SET version = version - %d", by.Microseconds()))
}

func TestSweepKeepsWhatIsStillNeeded(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("retention", "1h")
		store := p.Store()
		claims := map[string]Claim{}
		for _, name := range []string{"free", "held", "infinite", "expired", "recent", "token ahead", "expired lately"} {
			ttl := time.Minute
			if name == "infinite" {
				ttl = abstractions.Infinite
			}
			claim, err := store.Acquire(ctx, claimOf(name, ttl))
			require.NoError(t, err)
			claims[name] = claim
			if name == "free" || name == "recent" || name == "token ahead" {
				_, err = store.Release(ctx, releaseOf(claim))
				require.NoError(t, err)
			}
		}
		_, err := store.Release(ctx, abstractions.ReleaseRequest{Name: "tombstone", ID: "x"})
		require.NoError(t, err)
		setBack(ctx, t, store, "expired", 2*time.Hour)
		setBack(ctx, t, store, "expired lately", 30*time.Minute)
		for _, statement := range []string{
			"UPDATE {lease} SET version = version - 7200000000 WHERE name <> 'recent'",
			"UPDATE {lease} SET token = token + 3600000000 WHERE name = 'token ahead'", // the clock went back
		} {
			execute(ctx, t, p.store.backend, statement)
		}

		swept, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, Swept{Names: 3}, swept)
		for name, there := range map[string]bool{
			"free": false, "expired": false, "tombstone": false,
			"held": true, "infinite": true, "recent": true, "token ahead": true, "expired lately": true,
		} {
			found, err := store.backend.read(ctx, name)
			require.NoError(t, err)
			require.Equal(t, there, found.version != 0, name)
		}
		next, err := store.Acquire(ctx, claimOf("token ahead", time.Minute))
		require.NoError(t, err)
		require.Greater(t, next.Token, claims["token ahead"].Token+3_600_000_000)
	})
}

func TestSweepGoesThroughTheWholeTable(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("retention", "1h")
		const names = 2*sweepBatch + 1
		for i := range names { // a release of what never was leaves a row too
			require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: fmt.Sprint("n", i), ID: "x"}))
		}
		idle(t, p, 2*time.Hour)
		swept, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, Swept{Names: names}, swept)
	})
}

// T54: a database that lost its last writes hands out greater tokens all the same.
func TestTrap_T54_TokenFollowsTheClock(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open()
		claim, err := p.Store().Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		for _, loss := range []string{"UPDATE {lease} SET token = 1, id = ''", "DELETE FROM {lease}"} {
			execute(ctx, t, p.store.backend, loss)
			next, err := p.Store().Acquire(ctx, claimOf("n", time.Minute))
			require.NoError(t, err)
			require.Greater(t, next.Token, claim.Token)
			claim = next
		}
	})
}

func TestForeverForgetsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("retention", "forever", "history", "true", "history_retention", "forever")
		claim, err := p.Store().Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Release(ctx, releaseOf(claim)))
		idle(t, p, 100*time.Hour)
		swept, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Zero(t, swept)
	})
}

func TestHistoryIsForgottenInTime(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("history", "true", "history_retention", "1h")
		for i := range 3 {
			claim, err := p.Store().Acquire(ctx, claimOf("n", time.Minute))
			require.NoError(t, err)
			require.NoError(t, p.Release(ctx, releaseOf(claim)))
			if i == 1 {
				column, old := "at", "at - interval '2 hours'"
				if p.Capabilities().Provider == "sqlite" {
					column, old = "at_us", "at_us - 7200000000"
				}
				execute(ctx, t, p.store.backend, "UPDATE {history} SET "+column+" = "+old)
			}
		}
		swept, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, Swept{History: 4}, swept)
		require.Equal(t, 2, countRows(t, p, "{history}"))
	})
}

// A row that somebody has locked is left for the next time.
func TestSweepWaitsForNobody(t *testing.T) {
	ctx, p := bounded(t), databases["postgres"](t)("retention", "1ms")
	for _, name := range []string{"a", "b"} {
		claim, err := p.Store().Acquire(ctx, claimOf(name, time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Release(ctx, releaseOf(claim)))
	}
	idle(t, p, time.Second)
	unlock := lockRow(t, p, "a", justLock)
	swept, err := p.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, swept.Names)
	unlock()
	swept, err = p.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, swept.Names)
}
