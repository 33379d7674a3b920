package dialecttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/stretchr/testify/require"
)

// T66: each claim in a batch has its own result.
func batchReturnsEachClaimsResult(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, store := Bounded(t), open("history", "true", "history_renewals", "true")
		fates := []string{"live", "released", "broken", "taken", "never", "expired", "live"}
		var requests []abstractions.RenewRequest
		for i, fate := range fates {
			claim, err := store.Acquire(ctx, ClaimOf(fmt.Sprint(fate, i), time.Minute))
			require.NoError(t, err)
			name := abstractions.BreakRequest{Name: claim.Name, Immediate: true}
			switch fate {
			case "released":
				err = store.Release(ctx, ReleaseOf(claim))
			case "broken":
				_, err = store.Break(ctx, abstractions.BreakRequest{Name: claim.Name})
			case "taken":
				SetBack(ctx, t, store, claim.Name, time.Hour)
				_, err = store.Acquire(ctx, ClaimOf(claim.Name, time.Minute))
			case "never":
				_, err = store.Break(ctx, name)
				claim.ID = "somebody-else"
				claim.Name = "never seen"
			case "expired":
				SetBack(ctx, t, store, claim.Name, time.Hour)
			}
			require.NoError(t, err)
			requests = append(requests, RenewalOf(claim))
		}
		requests = append(requests, requests[0], abstractions.RenewRequest{Name: requests[6].Name, ID: "other", Token: 1, TTL: time.Minute}, abstractions.RenewRequest{Name: "", ID: "x", TTL: time.Minute})
		results, err := store.RenewBatch(ctx, requests)
		require.NoError(t, err)
		require.Len(t, results, len(requests))
		for _, i := range []int{0, 6, 7} {
			require.NoError(t, results[i].Err)
			require.Equal(t, requests[i].ID, results[i].Grant.ID)
			require.Equal(t, requests[i].Token, results[i].Grant.Token)
			Exactly(t, time.Minute, results[i].Grant)
		}
		for i, reason := range map[int]abstractions.LostReason{
			1: abstractions.LostGone, 2: abstractions.LostBroken, 3: abstractions.LostTaken, 4: abstractions.LostGone, 5: abstractions.LostExpired, 8: abstractions.LostTaken,
		} {
			LostBecause(t, results[i].Err, reason)
		}
		require.ErrorIs(t, results[9].Err, abstractions.ErrInvalid)
		require.Contains(t, fmt.Sprint(historyOf(ctx, t, store, "live0")), "renewed")
	})
}

// Renewals of many leases take one transaction, which must fit into
// the limits of each database.
func largeBatch(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, store := Bounded(t), open()
		var requests []abstractions.RenewRequest
		for i := range 1000 {
			claim, err := store.Acquire(ctx, ClaimOf(fmt.Sprintf("batch/%d", i), time.Hour))
			require.NoError(t, err)
			requests = append(requests, RenewalOf(claim))
		}
		results, err := store.RenewBatch(ctx, requests)
		require.NoError(t, err)
		for _, result := range results {
			require.NoError(t, result.Err)
		}
	})
}

// T161: a row that was made by hand, with version 0, is treated like any other.
func aRowOfVersionZero(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		p := open()
		claim, err := p.Acquire(Bounded(t), ClaimOf("n", time.Hour))
		require.NoError(t, err)
		Execute(Bounded(t), t, p, "UPDATE {lease} SET version = 0")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		result, err := p.Break(ctx, abstractions.BreakRequest{Name: "n", Immediate: true})
		require.NoError(t, err)
		require.True(t, result.WasHeld)
		Execute(Bounded(t), t, p, "UPDATE {lease} SET version = 0")
		next, err := p.Acquire(ctx, ClaimOf("n", time.Hour))
		require.NoError(t, err)
		require.Greater(t, next.Token, claim.Token)
	})
}

// Join makes a claim wait for a name that another claim holds.
func Join(ctx context.Context, t testing.TB, p *sqllease.Provider, name, id string) abstractions.Wakeups {
	t.Helper()
	wakeups, err := p.Wait(ctx, abstractions.WaitRequest{Name: name, ID: id})
	require.NoError(t, err)
	_ = Refused(ctx, t, p, name, id)
	return wakeups
}

// Refused sends an acquire that is refused.
func Refused(ctx context.Context, t testing.TB, p *sqllease.Provider, name, id string) *abstractions.HeldError {
	t.Helper()
	_, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: "tester", TTL: time.Minute})
	var held *abstractions.HeldError
	require.ErrorAs(t, err, &held)
	return held
}

// Hinted waits for a wake-up.
func Hinted(t testing.TB, w abstractions.Wakeups) {
	t.Helper()
	select {
	case <-w.C:
	case <-time.After(20 * time.Second):
		require.Fail(t, "no wake-up came")
	}
}

// Take sends an acquire that succeeds.
func Take(ctx context.Context, t testing.TB, p *sqllease.Provider, name, id string) abstractions.Grant {
	t.Helper()
	claim, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: "tester", TTL: time.Minute})
	require.NoError(t, err)
	return claim
}
