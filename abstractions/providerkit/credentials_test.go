package providerkit

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// T119: only the text of a source's error is kept.
func TestTrap_T119_ASourcesErrorIsText(t *testing.T) {
	for _, cause := range []error{
		errClient, abstractions.ErrHeld, abstractions.ErrNotSetUp, abstractions.ErrInvalid, abstractions.ErrClosed, &abstractions.LostError{Reason: abstractions.LostGone},
		&abstractions.ThrottledError{RetryAfter: time.Hour}, Partial(abstractions.ErrUnavailable), &ownError{}, nil,
	} {
		_, err := AskCredentials(t.Context(), nil, func(context.Context) (int, error) {
			if cause == nil {
				panic("boom")
			}
			return 0, cause
		})
		err = fmt.Errorf("of a client library: %w", err)
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.ErrorContains(t, err, "credentials: ")
		require.True(t, abstractions.NotApplied(err))
		for _, of := range []error{errClient, abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrNotSetUp, abstractions.ErrInvalid, abstractions.ErrClosed, abstractions.ErrThrottled, abstractions.ErrDenied} {
			require.NotErrorIs(t, err, of)
		}
		require.False(t, errors.As(err, new(*ownError)))
		var source *CredentialError
		require.ErrorAs(t, err, &source)
		if cause != nil {
			require.Equal(t, cause, source.Cause)
		}
		require.False(t, abstractions.NotApplied(Partial(err)), "an earlier request may have been applied")
	}
	_, err := AskCredentials(t.Context(), func(err error) bool { return errors.Is(err, errClient) }, func(context.Context) (int, error) { return 0, errClient })
	require.ErrorIs(t, err, abstractions.ErrDenied)
	require.NotErrorIs(t, err, abstractions.ErrUnavailable)
	value, err := AskCredentials(t.Context(), nil, func(context.Context) (int, error) { return 7, nil })
	require.NoError(t, err)
	require.Equal(t, 7, value)
}

// The error for a silent source names the source, and comes before the caller's
// deadline.
func TestASilentSourceIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := AskCredentials(ctx, nil, func(ctx context.Context) (int, error) {
			<-ctx.Done()
			return 0, abstractions.ErrDenied
		})
		require.NoError(t, ctx.Err())
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.NotErrorIs(t, err, abstractions.ErrDenied, "it came too late to count")
	})
}
