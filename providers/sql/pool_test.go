package sqllease

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPoolLimitLeavesOneConnection(t *testing.T) {
	require.Nil(t, poolLimit(0), "a pool without bound")
	require.Nil(t, poolLimit(1))
	l := poolLimit(2)
	require.NoError(t, l.enter(t.Context()))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	require.ErrorIs(t, l.enter(ctx), context.Canceled)
	l.leave()
	require.NoError(t, l.enter(t.Context()))
}
