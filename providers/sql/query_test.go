package sqllease

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPoolLimitLeavesOneConnection(t *testing.T) {
	var none statementsOfNobody
	for connections, most := range map[int]int64{0: 1 << 40, 1: 1 << 40, 2: 1, 7: 6} {
		l := limitedTo(connections, none)
		require.True(t, l.places.TryAcquire(most))
		if most > 6 {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, run(ctx, l, ""), context.Canceled)
		l.places.Release(1)
		require.NoError(t, run(t.Context(), l, ""))
		require.True(t, l.places.TryAcquire(1), "it was given back")
	}
}

// statementsOfNobody do nothing.
type statementsOfNobody struct{}

func (statementsOfNobody) query(context.Context, string, []any, func(scan) error) error { return nil }
