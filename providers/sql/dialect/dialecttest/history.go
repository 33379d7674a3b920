package dialecttest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/distributedleasing/leasing/providers/sql/dialect"
	"github.com/stretchr/testify/require"
)

func historyRecordsEachChange(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("history", "true")
		acquire := func() abstractions.Grant {
			claim, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
			require.NoError(t, err)
			return claim
		}
		first := acquire()
		_, err := p.Renew(ctx, RenewalOf(first))
		require.NoError(t, err)
		SetBack(ctx, t, p, "n", time.Hour)
		second := acquire()
		err = p.Release(ctx, ReleaseOf(second))
		require.NoError(t, err)
		third := acquire()
		_, err = p.Break(ctx, abstractions.BreakRequest{Name: "n", Actor: "ada", Reason: "stuck"})
		require.NoError(t, err)
		SetBack(ctx, t, p, "n", time.Hour)
		fourth := acquire()
		SetBack(ctx, t, p, "n", time.Hour)
		err = p.Release(ctx, ReleaseOf(fourth))
		require.NoError(t, err)

		page, err := p.History(ctx, abstractions.HistoryRequest{Name: "n"})
		require.NoError(t, err)
		require.Empty(t, page.Next)
		want := []struct {
			kind  abstractions.HistoryKind
			claim abstractions.Grant
		}{
			{abstractions.HistoryAcquired, first},
			{abstractions.HistoryExpired, first}, // recorded by the next change
			{abstractions.HistoryAcquired, second},
			{abstractions.HistoryReleased, second},
			{abstractions.HistoryAcquired, third},
			{abstractions.HistoryBroken, third}, // its later expiry adds no entry
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
		granted, _, _ := sqllease.Times(first)
		require.Equal(t, granted.Truncate(time.Microsecond), page.Entries[0].Time)
		require.Equal(t, "ada stuck", page.Entries[5].Actor+" "+page.Entries[5].Reason)
		require.True(t, page.Entries[1].Time.Before(page.Entries[2].Time.Add(-50*time.Minute)), "at the time at which it ran out")
	})
}

// The history is written with the change or not at all.
func historyIsPartOfTheChange(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("history", "true")
		claim, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		Execute(ctx, t, p, "DROP TABLE {history}")
		require.Error(t, p.Release(ctx, ReleaseOf(claim)))
		_, err = p.Acquire(ctx, ClaimOf("m", time.Minute))
		require.Error(t, err)

		record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.True(t, record.Held)
		record, err = p.Inspect(ctx, abstractions.InspectRequest{Name: "m"})
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

func historyIsOptional(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, without, with := Bounded(t), open(), open("history", "true")
		claim, err := without.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		require.NoError(t, without.Release(ctx, ReleaseOf(claim)))
		page, err := with.History(ctx, abstractions.HistoryRequest{Name: "n"})
		require.NoError(t, err)
		require.Empty(t, page.Entries)
		_, err = with.History(ctx, abstractions.HistoryRequest{Name: "n", After: "x"})
		require.ErrorIs(t, err, abstractions.ErrInvalid)
	})
}

// Changes to one name by several goroutines are recorded in order, with rising tokens.
func historyIsInOrder(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("history", "true")
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				for range 25 {
					claim, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
					if err != nil {
						require.ErrorIs(t, err, abstractions.ErrHeld)
						continue
					}
					require.NoError(t, p.Release(ctx, ReleaseOf(claim)))
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

// Entries that an application writes are read like the provider's own.
func historyOfOthers(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("history", "true")
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
		Execute(ctx, t, p, "DROP TABLE {history}")
		require.Error(t, p.WriteHistory(ctx, all))
		require.NoError(t, p.Close())
		require.ErrorIs(t, p.WriteHistory(ctx, all), abstractions.ErrClosed)
	})
}

// The history has fingerprints instead of IDs. A row with an ID, as version 0.1.0 wrote it, is returned with the
// fingerprint.
func theHistoryHasNoIDs(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("history", "true", "history_renewals", "true")
		ids := func() (ids []string) {
			require.NoError(t, BackendOf(p).Query(ctx, InTables(p, "SELECT id FROM {history}"), nil, func(scan dialect.Scan) error {
				ids = append(ids, "")
				return scan(&ids[len(ids)-1])
			}))
			return ids
		}
		var grants []abstractions.Grant
		for _, name := range []string{"released", "broken", "ran out"} {
			grant, err := p.Acquire(ctx, ClaimOf(name, time.Minute))
			require.NoError(t, err)
			_, err = p.Renew(ctx, RenewalOf(grant))
			require.NoError(t, err)
			grants = append(grants, grant)
		}
		require.NoError(t, p.Release(ctx, ReleaseOf(grants[0])))
		_, err := p.Break(ctx, abstractions.BreakRequest{Name: "broken", Immediate: true})
		require.NoError(t, err)
		SetBack(ctx, t, p, "ran out", time.Hour)
		_, err = p.Acquire(ctx, ClaimOf("ran out", time.Minute))
		require.NoError(t, err)
		SetBack(ctx, t, p, "ran out", time.Hour)
		require.NoError(t, p.Release(ctx, ReleaseOf(grants[2])))
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

		Execute(ctx, t, p, "UPDATE {history} SET id = '"+grants[0].ID+"' WHERE name = 'released'")
		page, err := p.History(ctx, abstractions.HistoryRequest{Name: "released"})
		require.NoError(t, err)
		require.Len(t, page.Entries, 3)
		for _, entry := range page.Entries {
			require.Equal(t, abstractions.FingerprintOf(grants[0].ID), entry.Fingerprint)
		}
	})
}
