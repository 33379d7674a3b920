package dialecttest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	"github.com/stretchr/testify/require"
)

// Both the rules and the cheaper statements refuse a broken claim while it is the latest claim in
// its row, even if the row has forgotten its ID.
func forgottenClaimThatWasBrokenIsRefused(t *testing.T, d Database) {
	d.on(t, func(t *testing.T, open func(parameters ...string) *sqllease.Provider) {
		ctx, s := Bounded(t), open()
		req := ClaimOf("n", time.Minute)
		claim, err := s.Acquire(ctx, req)
		require.NoError(t, err)
		_, err = s.Break(ctx, abstractions.BreakRequest{Name: "n"})
		require.NoError(t, err)
		for range providerkit.EndedMost {
			require.NoError(t, s.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: abstractions.NewID()}))
		}
		for _, when := range []string{"while it runs out", "after it has"} {
			_, err = s.Acquire(ctx, req)
			require.ErrorIs(t, err, abstractions.ErrReleased, when)
			_, err = s.Renew(ctx, RenewalOf(claim))
			lost := (*abstractions.LostError)(nil)
			require.ErrorAs(t, err, &lost, when)
			require.Equal(t, abstractions.LostBroken, lost.Reason, when)
			expire(ctx, t, s, "n")
		}
	})
}

func historyOf(ctx context.Context, t testing.TB, s *sqllease.Provider, name string) (entries []string) {
	var tokens []int64
	for after := ""; ; {
		page, err := s.History(ctx, abstractions.HistoryRequest{Name: name, Limit: 7, After: after})
		require.NoError(t, err)
		for _, e := range page.Entries {
			if len(tokens) == 0 || tokens[len(tokens)-1] != e.Token {
				tokens = append(tokens, e.Token)
			}
			entries = append(entries, fmt.Sprint(e.Kind, " ", e.Fingerprint, " ", e.Owner, " ", e.Actor, " ", e.Reason, " ", len(tokens), " ", e.Time.IsZero()))
		}
		if after = page.Next; after == "" {
			require.IsIncreasing(t, tokens)
			return entries
		}
	}
}

// expire lets the lease of a name run out, unless it is infinite.
func expire(ctx context.Context, t testing.TB, s *sqllease.Provider, name string) {
	t.Helper()
	SetBack(ctx, t, s, name, 3*time.Hour)
}

// SetBack moves the end of a lease to an earlier time.
func SetBack(ctx context.Context, t testing.TB, s *sqllease.Provider, name string, by time.Duration) {
	t.Helper()
	us := by.Microseconds()
	statement, args := "UPDATE {lease} SET expires_us = expires_us - ?, boot_us = boot_us - ? WHERE name = ? AND expires_us > 0", []any{us, us, name}
	switch s.Capabilities().Provider {
	case "postgres":
		statement, args = "UPDATE {lease} SET expires_at = expires_at - $2::bigint * interval '1 microsecond' WHERE name = $1::text", []any{name, us}
	case "mysql":
		statement, args = "UPDATE {lease} SET expires_us = expires_us - ? WHERE name = ? AND expires_us > 0", []any{us, name}
	}
	Execute(ctx, t, s, statement, args...)
}
