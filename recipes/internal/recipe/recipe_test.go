package recipe

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

func TestJoinReportsEachErrorOnce(t *testing.T) {
	boom, lost := errors.New("boom"), &leasing.LostError{Reason: leasing.LostTaken}
	require.NoError(t, Join(nil, nil))
	require.Equal(t, boom, Join(nil, boom), "a single error is left as it is")
	require.EqualError(t, Join(fmt.Errorf("work: %w", lost), boom, fmt.Errorf("release: %w", lost)), "work: lease lost: taken\nboom")
	other := &leasing.LostError{Reason: leasing.LostTaken}
	err := Join(lost, other)
	require.ErrorIs(t, err, lost)
	require.ErrorIs(t, err, other, "the loss of another lease")
}

func TestDoReleasesAlsoAfterAPanic(t *testing.T) {
	held, lose := context.WithCancelCause(t.Context())
	boom := errors.New("boom")
	released := 0
	release := func() []error { released++; return []error{nil, boom} }
	err := Do(t.Context(), held, func(ctx context.Context) error {
		lose(leasing.ErrLost)
		return context.Cause(ctx)
	}, release)
	require.ErrorIs(t, err, leasing.ErrLost)
	require.ErrorIs(t, err, boom)
	require.Panics(t, func() {
		_ = Do(t.Context(), context.Background(), func(context.Context) error { panic("work") }, release)
	})
	require.Equal(t, 2, released)
}
