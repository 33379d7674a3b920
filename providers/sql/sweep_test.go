package sqllease

import (
	"fmt"
	"strconv"
	"strings"
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
	switch b := p.driver.backend.(type) {
	case *postgres:
		err = viaSQL{b.db}.query(bounded(t), inTables(b.tables.schema+"."+b.tables.table, "SELECT count(*) FROM "+table), nil, count)
	case *sqlite:
		err = viaSQL{b.db}.query(bounded(t), inTables(b.tables.table, "SELECT count(*) FROM "+table), nil, count)
	}
	require.NoError(t, err)
	return n
}

// T28: names that are used once don't pile up, and T54: their tokens rise
// though they were forgotten.
func TestTrap_T28_OneOffNamesAreForgotten(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("retention", "1ms")
		var last abstractions.Grant
		for i := 1; ; i++ {
			require.Less(t, i, 20*sweepEvery, "nobody sweeps")
			var err error
			last, err = p.Acquire(ctx, claimOf(fmt.Sprintf("reply/%d", i), time.Minute))
			require.NoError(t, err)
			require.NoError(t, p.Release(ctx, releaseOf(last)))
			if i%50 == 0 && countRows(t, p, "{lease}") < i {
				break
			}
		}

		idle(t, p, time.Second)
		_, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Zero(t, countRows(t, p, "{lease} WHERE name <> ''"))
		again, err := p.Acquire(ctx, claimOf(last.Name, time.Minute))
		require.NoError(t, err)
		require.Greater(t, again.Token, last.Token)
	})
}

// idle makes all names look unused for longer than they are.
func idle(t testing.TB, p *Provider, by time.Duration) {
	t.Helper()
	execute(bounded(t), t, p.driver.backend, fmt.Sprintf("UPDATE {lease} SET version = version - %d", by.Microseconds()))
}

func TestSweepKeepsWhatIsStillNeeded(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("retention", "1h")
		claims := map[string]abstractions.Grant{}
		for _, name := range []string{"free", "held", "infinite", "expired", "recent", "token ahead", "expired lately"} {
			ttl := time.Minute
			if name == "infinite" {
				ttl = abstractions.Infinite
			}
			claim, err := p.Acquire(ctx, claimOf(name, ttl))
			require.NoError(t, err)
			claims[name] = claim
			if name == "free" || name == "recent" || name == "token ahead" {
				err = p.Release(ctx, releaseOf(claim))
				require.NoError(t, err)
			}
		}
		err := p.Release(ctx, abstractions.ReleaseRequest{Name: "tombstone", ID: "x"})
		require.NoError(t, err)
		setBack(ctx, t, p, "expired", 2*time.Hour)
		setBack(ctx, t, p, "expired lately", 30*time.Minute)
		for _, statement := range []string{
			"UPDATE {lease} SET version = version - 7200000000 WHERE name <> 'recent'",
			"UPDATE {lease} SET token = token + 3600000000 WHERE name = 'token ahead'", // the clock went back
		} {
			execute(ctx, t, p.driver.backend, statement)
		}

		swept, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, swept)
		for name, there := range map[string]bool{
			"free": false, "expired": false, "tombstone": false,
			"held": true, "infinite": true, "recent": true, "token ahead": true, "expired lately": true,
		} {
			found, err := p.driver.backend.read(ctx, name)
			require.NoError(t, err)
			require.Equal(t, there, found.Token != 0 || len(found.Ended) > 0, name)
		}
		next, err := p.Acquire(ctx, claimOf("token ahead", time.Minute))
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
		require.Equal(t, names, swept)
	})
}

// T54: a database that lost its last writes hands out greater tokens all the same.
func TestTrap_T54_TokenFollowsTheClock(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open()
		claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		for _, loss := range []string{"UPDATE {lease} SET token = 1, id = ''", "DELETE FROM {lease}"} {
			execute(ctx, t, p.driver.backend, loss)
			next, err := p.Acquire(ctx, claimOf("n", time.Minute))
			require.NoError(t, err)
			require.Greater(t, next.Token, claim.Token)
			claim = next
		}
	})
}

func TestForeverForgetsNothing(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("retention", "forever", "history", "true", "history_retention", "forever")
		claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
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
			claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
			require.NoError(t, err)
			require.NoError(t, p.Release(ctx, releaseOf(claim)))
			if i == 1 {
				column, old := "at", "at - interval '2 hours'"
				if p.Capabilities().Provider == "sqlite" {
					column, old = "at_us", "at_us - 7200000000"
				}
				execute(ctx, t, p.driver.backend, "UPDATE {history} SET "+column+" = "+old)
			}
		}
		swept, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Zero(t, swept, "no name")
		require.Equal(t, 2, countRows(t, p, "{history}"))
	})
}

// A row that somebody has locked is left for the next time.
func TestSweepWaitsForNobody(t *testing.T) {
	ctx, p := bounded(t), databases["postgres"](t)("retention", "1h") // a release sweeps, too
	for _, name := range []string{"a", "b"} {
		claim, err := p.Acquire(ctx, claimOf(name, time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Release(ctx, releaseOf(claim)))
	}
	idle(t, p, 2*time.Hour)
	unlock := lockRow(t, p, "a", justLock)
	swept, err := p.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, swept)
	unlock()
	swept, err = p.Sweep(ctx)
	require.NoError(t, err)
	require.Equal(t, 1, swept)
}

// T73: processes that release a few times and end take part in sweeping, and each
// goes on where the one before has ended.
func TestTrap_T73_ShortProcessesSweepToo(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		const names, processes, releases = 3 * sweepBatch, 8, 3
		ctx, first := bounded(t), open()
		statement := `INSERT INTO {lease} (name, token, id, owner, metadata, breaking, broken_by, break_reason, ended, version)
SELECT 'reply/' || n, 1, '', '', '{}', false, '', '', '', 1 FROM generate_series(1, ` + strconv.Itoa(names) + `) AS n`
		if first.Capabilities().Provider == "sqlite" {
			statement = `WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series LIMIT ` + strconv.Itoa(names) + `)
INSERT INTO {lease} (name, token, id, owner, metadata, breaking, broken_by, break_reason, ended, waiters, version, expires_us, boot, boot_us)
SELECT 'reply/' || n, 1, '', '', '{}', 0, '', '', x'', '', 1, 0, '', 0 FROM series`
		}
		execute(ctx, t, first.driver.backend, statement)
		// As many names come first that are kept, as their tokens are ahead of the clock.
		execute(ctx, t, first.driver.backend, strings.NewReplacer("reply/", "kept/", "n, 1,", "n, 4503599627370496,").Replace(statement))
		for range processes {
			p := open("create", "false")
			calls := 0
			p.driver.random = func(n int) int { // the last release is the one in so many
				calls++
				require.Equal(t, sweepEvery, n)
				return releases - calls
			}
			for range releases {
				require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: "a", ID: "x"}))
			}
			require.NoError(t, p.Close())
		}
		require.Equal(t, names+1, countRows(t, first, "{lease} WHERE name <> ''"), "those that are kept, and the name that was used")
	})
}

// T74: history is bounded by what is written, whether or not anything is released.
func TestTrap_T74_HistoryIsBoundedByWhatIsWritten(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		const most = 20 * sweepEvery
		ctx, p := bounded(t), open("history", "true", "history_renewals", "true", "history_retention", "1ms")
		var renewals []abstractions.RenewRequest
		for i := range 20 {
			grant, err := p.Acquire(ctx, claimOf(fmt.Sprint("n", i), time.Hour))
			require.NoError(t, err)
			renewals = append(renewals, renewalOf(grant))
		}
		for name, write := range map[string]func() int{
			"renewals in batches": func() int {
				_, err := p.RenewBatch(ctx, renewals)
				require.NoError(t, err)
				return len(renewals)
			},
			"renewals": func() int {
				_, err := p.Renew(ctx, renewals[0])
				require.NoError(t, err)
				return 1
			},
			"leases that run out": func() int {
				_, err := p.Acquire(ctx, claimOf("short", time.Hour))
				require.NoError(t, err)
				setBack(ctx, t, p, "short", 2*time.Hour)
				return 1
			},
			"breaks": func() int {
				_, err := p.Acquire(ctx, claimOf("broken", time.Hour))
				require.NoError(t, err)
				_, err = p.Break(ctx, abstractions.BreakRequest{Name: "broken", Immediate: true})
				require.NoError(t, err)
				return 2
			},
		} {
			before, written := countRows(t, p, "{history}"), 0
			for i := 0; countRows(t, p, "{history}") >= before+written; i++ {
				require.Less(t, written, most, name)
				written += write()
			}
		}
	})
}
