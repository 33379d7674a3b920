package sqllease

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

func TestHistoryTellsWhatHappened(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("history", "true")
		acquire := func() abstractions.Grant {
			claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
			require.NoError(t, err)
			return claim
		}
		first := acquire()
		_, err := p.Renew(ctx, renewalOf(first))
		require.NoError(t, err)
		setBack(ctx, t, p, "n", time.Hour)
		second := acquire()
		err = p.Release(ctx, releaseOf(second))
		require.NoError(t, err)
		third := acquire()
		_, err = p.Break(ctx, abstractions.BreakRequest{Name: "n", Actor: "ada", Reason: "stuck"})
		require.NoError(t, err)
		setBack(ctx, t, p, "n", time.Hour)
		fourth := acquire()
		setBack(ctx, t, p, "n", time.Hour)
		err = p.Release(ctx, releaseOf(fourth))
		require.NoError(t, err)

		page, err := p.History(ctx, abstractions.HistoryRequest{Name: "n"})
		require.NoError(t, err)
		require.Empty(t, page.Next)
		want := []struct {
			kind  abstractions.HistoryKind
			claim abstractions.Grant
		}{
			{abstractions.HistoryAcquired, first},
			{abstractions.HistoryExpired, first}, // as the next change found
			{abstractions.HistoryAcquired, second},
			{abstractions.HistoryReleased, second},
			{abstractions.HistoryAcquired, third},
			{abstractions.HistoryBroken, third}, // and it ran out: that is no news
			{abstractions.HistoryAcquired, fourth},
			{abstractions.HistoryExpired, fourth}, // released too late
		}
		require.Len(t, page.Entries, len(want))
		for i, entry := range page.Entries {
			require.Equal(t, want[i].kind, entry.Kind, i)
			require.Equal(t, abstractions.FingerprintOf(want[i].claim.ID), entry.Fingerprint, i)
			require.Equal(t, want[i].claim.Token, entry.Token, i)
			require.Equal(t, "tester", entry.Owner)
		}
		granted, _, _ := Times(first)
		require.Equal(t, granted.Truncate(time.Microsecond), page.Entries[0].Time)
		require.Equal(t, "ada stuck", page.Entries[5].Actor+" "+page.Entries[5].Reason)
		require.True(t, page.Entries[1].Time.Before(page.Entries[2].Time.Add(-50*time.Minute)), "at the time at which it ran out")
	})
}

// The history is written with the change or not at all.
func TestHistoryIsPartOfTheChange(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("history", "true")
		claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		execute(ctx, t, p.driver.backend, "DROP TABLE {history}")
		require.Error(t, p.Release(ctx, releaseOf(claim)))
		_, err = p.Acquire(ctx, claimOf("m", time.Minute))
		require.Error(t, err)

		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.True(t, record.Held)
		record, err = p.Inspect(ctx, abstractions.InspectRequest{Name: "m"})
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

func TestHistoryIsOptional(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, without, with := bounded(t), open(), open("history", "true")
		claim, err := without.Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		require.NoError(t, without.Release(ctx, releaseOf(claim)))
		page, err := with.History(ctx, abstractions.HistoryRequest{Name: "n"})
		require.NoError(t, err)
		require.Empty(t, page.Entries)
		_, err = with.History(ctx, abstractions.HistoryRequest{Name: "n", After: "x"})
		require.ErrorIs(t, err, abstractions.ErrInvalid)
	})
}

// Changes of one name by many are in order, with rising tokens.
func TestHistoryIsInOrder(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("history", "true")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 25 {
					claim, err := p.Acquire(ctx, claimOf("n", time.Minute))
					if err != nil {
						require.ErrorIs(t, err, abstractions.ErrHeld)
						continue
					}
					require.NoError(t, p.Release(ctx, releaseOf(claim)))
				}
			})
		}
		all.Wait()
		entries := historyOf(ctx, t, p, "n") // checks the tokens
		require.NotEmpty(t, entries)
		for i, entry := range entries {
			require.Contains(t, entry, []string{"acquired", "released"}[i%2], fmt.Sprint(i))
		}
	})
}

// Entries that somebody else tells of are read as if the provider had written them.
func TestHistoryOfOthers(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("history", "true")
		at := time.Now().UTC().Truncate(time.Microsecond)
		var want []abstractions.HistoryEntry
		var all []abstractions.NamedEntry
		for i := range 20 {
			e := abstractions.HistoryEntry{Time: at.Add(-time.Duration(i) * time.Second), Kind: abstractions.HistoryAcquired, Fingerprint: abstractions.FingerprintOf("id"), Owner: "o'\"\\ü", Token: int64(i)}
			if i%2 == 1 {
				e = abstractions.HistoryEntry{Time: at, Kind: abstractions.HistoryBroken, Token: abstractions.MaxToken, Actor: "ada", Reason: "stuck\n$1"}
			}
			want = append(want, e)
			all = append(all, abstractions.NamedEntry{Name: "n", HistoryEntry: e}, abstractions.NamedEntry{Name: "other", HistoryEntry: e})
		}
		require.NoError(t, p.WriteHistory(ctx, all))
		require.NoError(t, p.WriteHistory(ctx, nil))
		page, err := p.History(ctx, abstractions.HistoryRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, want, page.Entries)

		require.ErrorIs(t, open().WriteHistory(ctx, all), abstractions.ErrInvalid, "it keeps no history")
		execute(ctx, t, p.driver.backend, "DROP TABLE {history}")
		require.Error(t, p.WriteHistory(ctx, all))
		require.NoError(t, p.Close())
		require.ErrorIs(t, p.WriteHistory(ctx, all), abstractions.ErrClosed)
	})
}

// The history has fingerprints. A row that has the ID, as version 0.1.0 wrote it, is shown with the fingerprint.
func TestTrap_T141_TheHistoryHasNoIDs(t *testing.T) {
	onEach(t, func(t *testing.T, open func(...string) *Provider) {
		ctx, p := bounded(t), open("history", "true", "history_renewals", "true")
		ids := func() (ids []string) {
			statement, table := "SELECT id FROM {history}", p.driver.backend
			if b, ok := table.(*postgres); ok {
				statement = inTables(b.tables.schema+"."+b.tables.table, statement)
			} else {
				statement = inTables(table.(*sqlite).tables.table, statement)
			}
			require.NoError(t, table.query(ctx, statement, nil, func(scan scan) error {
				ids = append(ids, "")
				return scan(&ids[len(ids)-1])
			}))
			return ids
		}
		var grants []abstractions.Grant
		for _, name := range []string{"released", "broken", "ran out"} {
			grant, err := p.Acquire(ctx, claimOf(name, time.Minute))
			require.NoError(t, err)
			_, err = p.Renew(ctx, renewalOf(grant))
			require.NoError(t, err)
			grants = append(grants, grant)
		}
		require.NoError(t, p.Release(ctx, releaseOf(grants[0])))
		_, err := p.Break(ctx, abstractions.BreakRequest{Name: "broken", Immediate: true})
		require.NoError(t, err)
		setBack(ctx, t, p, "ran out", time.Hour)
		_, err = p.Acquire(ctx, claimOf("ran out", time.Minute))
		require.NoError(t, err)
		setBack(ctx, t, p, "ran out", time.Hour)
		require.NoError(t, p.Release(ctx, releaseOf(grants[2])))
		_, err = p.Inspect(ctx, abstractions.InspectRequest{Name: "ran out"})
		require.NoError(t, err)
		require.NoError(t, p.WriteHistory(ctx, []abstractions.NamedEntry{{Name: "written", HistoryEntry: abstractions.HistoryEntry{
			Time: time.Now(), Kind: abstractions.HistoryLost, Fingerprint: abstractions.FingerprintOf("w"), Token: 1,
		}}}))
		all := ids()
		require.Greater(t, len(all), 9)
		for _, id := range all {
			require.Regexp(t, "^fp_[0-9a-f]{16}$", id)
		}
		require.Contains(t, all, abstractions.FingerprintOf("w").String())

		execute(ctx, t, p.driver.backend, "UPDATE {history} SET id = '"+grants[0].ID+"' WHERE name = 'released'")
		page, err := p.History(ctx, abstractions.HistoryRequest{Name: "released"})
		require.NoError(t, err)
		require.Len(t, page.Entries, 3)
		for _, entry := range page.Entries {
			require.Equal(t, abstractions.FingerprintOf(grants[0].ID), entry.Fingerprint)
		}
	})
}
