package cosmoslease

import (
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// Each operation makes as many requests as the documentation says.
func TestRequestsPerOperation(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		ctx := t.Context()
		b.account.Record()
		require.Empty(t, b.verbs(), "opening")

		first := b.acquire("n", "a")
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadAccount, cosmostest.ReadContainer, cosmostest.ReadItem, cosmostest.ReadItem, cosmostest.CreateItem}, b.verbs(), "the provider's first use, and the name's")
		b.release(first)
		require.Equal(t, []cosmostest.Verb{cosmostest.ReplaceItem}, b.verbs(), "release")
		g := b.acquire("n", "b")
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadItem, cosmostest.ReplaceItem}, b.verbs(), "acquire")
		_, err := b.try("n", "c")
		require.ErrorIs(t, err, abstractions.ErrHeld)
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadItem}, b.verbs(), "acquire what is held")
		next, err := b.renew(g)
		require.NoError(t, err)
		require.Equal(t, []cosmostest.Verb{cosmostest.ReplaceItem}, b.verbs(), "renew")
		b.inspect("n")
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadItem}, b.verbs(), "inspect")
		require.NoError(t, b.Ping(ctx))
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadItem}, b.verbs(), "ping")
		_, err = b.List(ctx, abstractions.ListRequest{})
		require.NoError(t, err)
		require.Equal(t, []cosmostest.Verb{cosmostest.QueryItems}, b.verbs(), "list")
		_, err = b.Break(ctx, abstractions.BreakRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadItem, cosmostest.ReplaceItem}, b.verbs(), "break")
		_, err = b.renew(next)
		requireLost(t, abstractions.LostBroken, err)
		require.Equal(t, []cosmostest.Verb{cosmostest.ReplaceItem, cosmostest.ReadItem}, b.verbs(), "renew what is lost")
		_, err = b.Break(ctx, abstractions.BreakRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadItem, cosmostest.ReplaceItem}, b.verbs(), "break what is broken")
		_, err = b.Break(ctx, abstractions.BreakRequest{Name: "never seen"})
		require.NoError(t, err)
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadItem, cosmostest.CreateItem}, b.verbs(), "break what nobody holds")
		require.NoError(t, b.Release(ctx, abstractions.ReleaseRequest{Name: "other", ID: "x"}))
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadItem, cosmostest.CreateItem}, b.verbs(), "clean up an attempt")
		require.NoError(t, b.Release(ctx, abstractions.ReleaseRequest{Name: "other", ID: "x"}))
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadItem}, b.verbs(), "again")
	})
}

// A renewal with an outdated ETag succeeds within the call, with a read and a second write.
func TestTrap_T15_AStaleETagHealsWithinTheCall(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		b.loseReply(cosmostest.ReplaceItem, func() error { _, err := b.renew(g); return err })
		b.account.Record()
		next, err := b.renew(g) // with the earlier state
		require.NoError(t, err)
		require.Equal(t, g.Token, next.Token)
		require.Equal(t, []cosmostest.Verb{cosmostest.ReplaceItem, cosmostest.ReadItem, cosmostest.ReplaceItem}, b.verbs())
		_, err = b.renew(next)
		require.NoError(t, err)
		require.Equal(t, []cosmostest.Verb{cosmostest.ReplaceItem}, b.verbs(), "healed")

		b.loseReply(cosmostest.ReplaceItem, func() error { _, err := b.renew(next); return err })
		b.account.Record()
		b.release(next)
		require.Equal(t, []cosmostest.Verb{cosmostest.ReplaceItem, cosmostest.ReadItem, cosmostest.ReplaceItem}, b.verbs())
		require.False(t, b.inspect("n").Held)
	})
}

// The clean-up of another claim's attempt changes the ETag of a held document, but not
// the remaining time of its holder.
func TestACleanUpBesideAHolderDoesNotDisturbIt(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		before := b.inspect("n")
		for _, id := range []string{"b", "c"} {
			require.NoError(t, b.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: id}))
			after := b.inspect("n")
			require.Equal(t, before.ExpiresAt, after.ExpiresAt)
			require.Equal(t, g.Token, after.Token)
			require.True(t, after.Held)
		}
		next, err := b.renew(g)
		require.NoError(t, err)
		b.release(next)
		for _, id := range []string{"a", "b", "c"} {
			_, err := b.try("n", id)
			require.ErrorIs(t, err, abstractions.ErrReleased, id)
		}
	})
}
