package sqlitelease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// T127: the clock is ahead while a name is used and forgotten, and is corrected later. No later token of this name or another name
// is lower.
func TestTrap_T127_AForgottenTokenOutlivesAClockThatWasAhead(t *testing.T) {
	t.Run("sqlite", func(t *testing.T) {
		ctx, open := bounded(t), database.New(t)
		p := open("retention", "1h")
		clock := clockOf(p, *later(morning, 0, 8*time.Hour))
		before, err := p.Acquire(ctx, claimOf("n", time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Release(ctx, releaseOf(before)))
		clock.Store(later(morning, 2*time.Hour, 8*time.Hour))
		n, err := p.Sweep(ctx)
		require.NoError(t, err)
		require.Equal(t, 1, n)
		clock.Store(later(morning, 2*time.Hour, 0))
		for _, name := range []string{"n", "other"} {
			after, err := p.Acquire(ctx, claimOf(name, time.Minute))
			require.NoError(t, err)
			require.Greater(t, after.Token, before.Token)
		}
		released := abstractions.ReleaseRequest{Name: "third", ID: abstractions.NewID()} // makes a row without a token
		require.NoError(t, p.Release(ctx, released))
		after, err := p.Acquire(ctx, claimOf("third", time.Minute))
		require.NoError(t, err)
		require.Greater(t, after.Token, before.Token)
	})
}
