package postgreslease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A row that a transaction has locked is left for the next sweep.
func TestSweepWaitsForNobody(t *testing.T) {
	ctx, p := bounded(t), database.New(t)("retention", "1h") // a release also sweeps
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
