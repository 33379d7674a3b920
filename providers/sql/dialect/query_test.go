package dialect

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPoolLimitLeavesOneConnection(t *testing.T) {
	var none statementsOfNobody
	for connections, most := range map[int]int64{0: 1 << 40, 1: 1 << 40, 2: 1, 7: 6} {
		l := LimitedTo(connections, none)
		require.True(t, l.slots.TryAcquire(most))
		if most > 6 {
			continue
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, Run(ctx, l, ""), context.Canceled)
		l.slots.Release(1)
		require.NoError(t, Run(t.Context(), l, ""))
		require.True(t, l.slots.TryAcquire(1), "it was given back")
	}
}

// statementsOfNobody do nothing.
type statementsOfNobody struct{}

func (statementsOfNobody) Query(context.Context, string, []any, func(Scan) error) error { return nil }
