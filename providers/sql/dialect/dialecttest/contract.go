package dialecttest

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/stretchr/testify/require"
)

func breakIsSigned(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open("history", "true")
		inspect := func() abstractions.Record {
			record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
			require.NoError(t, err)
			return record
		}
		_, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		_, err = p.Break(ctx, abstractions.BreakRequest{Name: "n", Actor: "ada@ops", Reason: "it hangs: \"ä\"'"})
		require.NoError(t, err)
		for range 2 {
			record := inspect()
			require.True(t, record.Breaking)
			require.Equal(t, "ada@ops", record.BrokenBy)
			require.Equal(t, "it hangs: \"ä\"'", record.BreakReason)
			_, err = p.Break(ctx, abstractions.BreakRequest{Name: "n", Actor: "bob", Reason: "me too"})
			require.NoError(t, err)
		}
		_, err = p.Acquire(ctx, ClaimOf("n", time.Minute))
		var held *abstractions.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, "ada@ops", held.Holder.BrokenBy)
		list, err := p.List(ctx, abstractions.ListRequest{})
		require.NoError(t, err)
		require.Equal(t, "ada@ops", list.Records[0].BrokenBy)

		SetBack(ctx, t, p, "n", time.Hour)
		_, err = p.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		require.False(t, inspect().Breaking)
		require.Empty(t, inspect().BrokenBy+inspect().BreakReason, "of the lease before")
		_, err = p.Break(ctx, abstractions.BreakRequest{Name: "n", Actor: "eve", Reason: "now", Immediate: true})
		require.NoError(t, err)

		page, err := p.History(ctx, abstractions.HistoryRequest{Name: "n"})
		require.NoError(t, err)
		var signed [][3]string
		for _, e := range page.Entries {
			signed = append(signed, [3]string{string(e.Kind), e.Actor, e.Reason})
		}
		require.Equal(t, [][3]string{{"acquired"}, {"broken", "ada@ops", "it hangs: \"ä\"'"}, {"acquired"}, {"broken", "eve", "now"}}, signed)
	})
}

func metadataIsReplacedWhileHeld(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p := Bounded(t), open()
		metadata := func(name string) map[string]string {
			record, err := p.Inspect(ctx, abstractions.InspectRequest{Name: name})
			require.NoError(t, err)
			return record.Metadata
		}
		var renewals []abstractions.RenewRequest
		for _, name := range []string{"a", "b", "c"} {
			req := ClaimOf(name, time.Minute)
			req.Metadata = map[string]string{"step": "0"}
			grant, err := p.Acquire(ctx, req)
			require.NoError(t, err)
			renewals = append(renewals, RenewalOf(grant))
		}
		renewals[0].Metadata = map[string]string{"step": `1 "\ä`, "of": "9"}
		renewals[1].Metadata = map[string]string{}
		results, err := p.RenewBatch(ctx, renewals)
		require.NoError(t, err)
		for _, result := range results {
			require.NoError(t, result.Err)
		}
		require.Equal(t, renewals[0].Metadata, metadata("a"))
		require.Empty(t, metadata("b"), "cleared")
		require.Equal(t, map[string]string{"step": "0"}, metadata("c"), "kept")

		renewals[0].Metadata = map[string]string{"step": "2"}
		_, err = p.Renew(ctx, renewals[0])
		require.NoError(t, err)
		require.Equal(t, renewals[0].Metadata, metadata("a"))
		renewals[0].ID, renewals[0].Metadata = "other", map[string]string{"step": "stolen"}
		_, err = p.Renew(ctx, renewals[0])
		require.ErrorIs(t, err, abstractions.ErrLost)
		require.Equal(t, map[string]string{"step": "2"}, metadata("a"))
	})
}

// A process that adopts a claim of another process has only the claim's name, ID and token.
func adoptedClaimIsRenewedAndReleased(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(...string) *sqllease.Provider) {
		ctx, p, other := Bounded(t), open(), open()
		grant, err := p.Acquire(ctx, ClaimOf("n", time.Minute))
		require.NoError(t, err)
		_, err = other.Renew(ctx, abstractions.RenewRequest{Name: "n", ID: grant.ID, Token: grant.Token, TTL: time.Hour})
		require.NoError(t, err)
		require.NoError(t, other.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: grant.ID, Token: grant.Token}))
		_, err = p.Renew(ctx, RenewalOf(grant))
		require.ErrorIs(t, err, abstractions.ErrLost)
	})
}
