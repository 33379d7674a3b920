package servertest

import (
	"context"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestUntilGivesUpWithTheLastAnswer(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	err := until(ctx, nil, func(context.Context) error {
		cancel()
		return os.ErrNotExist
	})
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, os.ErrNotExist)
}
