package sqllease

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPoolLimitLeavesOneConnection(t *testing.T) {
	require.Nil(t, newPoolLimit(0), "a pool without bound")
	require.Nil(t, newPoolLimit(1))
	l := newPoolLimit(2)
	require.NoError(t, l.do(t.Context(), func() error {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, l.do(ctx, func() error { return nil }), context.Canceled)
		return nil
	}))
	require.NoError(t, l.do(t.Context(), func() error { return nil }))
}
