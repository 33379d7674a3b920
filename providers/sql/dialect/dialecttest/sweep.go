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

// The numbers in the documentation of Provider.Sweep.
const sweepBatch, sweepEvery = 500, 250

// CountRows counts the rows of a table.
func CountRows(t testing.TB, p *sqllease.Provider, table string) (n int) {
	t.Helper()
	err := BackendOf(p).Query(Bounded(t), InTables(p, "SELECT count(*) FROM "+table), nil, func(scan dialect.Scan) error { return scan(&n) })
	require.NoError(t, err)
	return n
}

// T28: names that are used once don't pile up. T54: their tokens rise even though the
// names were forgotten.
func oneOffNamesAreForgotten(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("retention", "1ms")
		var last abstractions.Grant
		for i := 1; ; i++ {
			require.Less(t, i, 20*sweepEvery, "nobody sweeps")
			var err error
			last, err = p.Acquire(ctx, ClaimOf(fmt.Sprintf("reply/%d", i), time.Minute))
			require.NoError(t, err)
			require.NoError(t, p.Release(ctx, ReleaseOf(last)))
			if i%50 == 0 && CountRows(t, p, "{lease}") < i {
				break
			}
		}

		Idle(t, p, time.Second)
		_, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Zero(t, CountRows(t, p, "{lease} WHERE name <> ''"))
		again, err := p.Acquire(ctx, ClaimOf(last.Name, time.Minute))
		require.NoError(t, err)
		require.Greater(t, again.Token, last.Token)
	})
}

// Idle makes the last use of each name earlier by the given time.
func Idle(t testing.TB, p *sqllease.Provider, by time.Duration) {
	t.Helper()
	Execute(Bounded(t), t, p, fmt.Sprintf("UPDATE {lease} SET version = version - %d", by.Microseconds()))
}

func sweepKeepsWhatIsStillNeeded(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("retention", "1h")
		claims := map[string]abstractions.Grant{}
		for _, name := range []string{"free", "held", "infinite", "expired", "recent", "token ahead", "expired lately"} {
			ttl := time.Minute
			if name == "infinite" {
				ttl = abstractions.Infinite
			}
			claim, err := p.Acquire(ctx, ClaimOf(name, ttl))
			require.NoError(t, err)
			claims[name] = claim
			if name == "free" || name == "recent" || name == "token ahead" {
				err = p.Release(ctx, ReleaseOf(claim))
				require.NoError(t, err)
			}
		}
		err := p.Release(ctx, abstractions.ReleaseRequest{Name: "tombstone", ID: "x"})
		require.NoError(t, err)
		SetBack(ctx, t, p, "expired", 2*time.Hour)
		SetBack(ctx, t, p, "expired lately", 30*time.Minute)
		for _, statement := range []string{
			"UPDATE {lease} SET version = version - 7200000000 WHERE name <> 'recent'",
			"UPDATE {lease} SET token = token + 3600000000 WHERE name = 'token ahead'", // the clock went back
		} {
			Execute(ctx, t, p, statement)
		}

		swept, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, 3, swept)
		for name, there := range map[string]bool{
			"free": false, "expired": false, "tombstone": false,
			"held": true, "infinite": true, "recent": true, "token ahead": true, "expired lately": true,
		} {
			found, err := BackendOf(p).Read(ctx, name)
			require.NoError(t, err)
			require.Equal(t, there, found.Token != 0 || len(found.Ended) > 0, name)
		}
		next, err := p.Acquire(ctx, ClaimOf("token ahead", time.Minute))
		require.NoError(t, err)
		require.Greater(t, next.Token, claims["token ahead"].Token+3_600_000_000)
	})
}

func sweepGoesThroughTheWholeTable(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("retention", "1h")
		const names = 2*sweepBatch + 1
		for i := range names { // a release of an unknown claim leaves a row too
			require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: fmt.Sprint("n", i), ID: "x"}))
		}
		Idle(t, p, 2*time.Hour)
		swept, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, names, swept)
	})
}

// T54: a database that lost its last writes still issues greater tokens.
func tokenFollowsTheClock(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open()
		claim, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		for _, loss := range []string{"UPDATE {lease} SET token = 1, id = ''", "DELETE FROM {lease}"} {
			Execute(ctx, t, p, loss)
			next, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
			require.NoError(t, err)
			require.Greater(t, next.Token, claim.Token)
			claim = next
		}
	})
}

func foreverForgetsNothing(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("retention", "forever", "history", "true", "history_retention", "forever")
		claim, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Release(ctx, ReleaseOf(claim)))
		Idle(t, p, 100*time.Hour)
		swept, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Zero(t, swept)
	})
}

func historyIsForgottenInTime(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("history", "true", "history_retention", "1h")
		for i := range 3 {
			claim, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
			require.NoError(t, err)
			require.NoError(t, p.Release(ctx, ReleaseOf(claim)))
			if i == 1 {
				column, old := "at", "at - interval '2 hours'"
				if !onPostgres(p) {
					column, old = "at_us", "at_us - 7200000000"
				}
				Execute(ctx, t, p, "UPDATE {history} SET "+column+" = "+old)
			}
		}
		swept, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Zero(t, swept, "no name")
		require.Equal(t, 2, CountRows(t, p, "{history}"))
	})
}

// T73: processes that release a few times and then exit take part in sweeping. Each continues where
// the previous process stopped.
func shortProcessesSweepToo(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		const names, processes, releases = 3 * sweepBatch, 8, 3
		ctx, first := Bounded(t), open()
		// The names that come first are kept, since their tokens are ahead of the clock.
		for prefix, token := range map[string]int64{"reply/": 1, "kept/": 1 << 52} {
			columns, rest, none := "", "", "''"
			switch first.Capabilities().Provider {
			case "mysql":
				columns, rest, none = ", waiters, expires_us", ", '', 0", "x''"
			case "sqlite":
				columns, rest, none = ", waiters, expires_us, boot, boot_us", ", '', 0, '', 0", "x''"
			}
			var rows []string
			for i := range names {
				rows = append(rows, fmt.Sprintf("('%s%d', %d, '', '', '{}', false, '', '', %s, 1%s)", prefix, i, token, none, rest))
			}
			Execute(ctx, t, first, "INSERT INTO {lease} (name, token, id, owner, metadata, breaking, broken_by, break_reason, ended, version"+columns+") VALUES "+strings.Join(rows, ","))
		}
		for range processes {
			p := open("create", "false")
			calls := 0
			StoreOf(p).Random = func(n int) int { // only the last release sweeps
				calls++
				require.Equal(t, sweepEvery, n)
				return releases - calls
			}
			for range releases {
				require.NoError(t, p.Release(ctx, abstractions.ReleaseRequest{Name: "a", ID: "x"}))
			}
			require.NoError(t, p.Close())
		}
		require.Equal(t, names+1, CountRows(t, first, "{lease} WHERE name <> ''"), "those that are kept, and the name that was used")
	})
}

// T74: the history stays bounded under every kind of write, even without releases.
func historyIsBoundedByWhatIsWritten(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		const most = 20 * sweepEvery
		ctx, p := Bounded(t), open("history", "true", "history_renewals", "true", "history_retention", "1ms")
		var renewals []abstractions.RenewRequest
		for i := range 20 {
			grant, err := p.Acquire(ctx, ClaimOf(fmt.Sprint("n", i), time.Hour))
			require.NoError(t, err)
			renewals = append(renewals, RenewalOf(grant))
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
				_, err := p.Acquire(ctx, ClaimOf("short", time.Hour))
				require.NoError(t, err)
				SetBack(ctx, t, p, "short", 2*time.Hour)
				return 1
			},
			"breaks": func() int {
				_, err := p.Acquire(ctx, ClaimOf("broken", time.Hour))
				require.NoError(t, err)
				_, err = p.Break(ctx, abstractions.BreakRequest{Name: "broken", Immediate: true})
				require.NoError(t, err)
				return 2
			},
		} {
			before, written := CountRows(t, p, "{history}"), 0
			for i := 0; CountRows(t, p, "{history}") >= before+written; i++ {
				require.Less(t, written, most, name)
				written += write()
			}
		}
	})
}
