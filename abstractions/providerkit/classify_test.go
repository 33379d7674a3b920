package providerkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

func TestClassesBecomeErrors(t *testing.T) {
	for class, want := range map[Class]error{
		Unknown: abstractions.ErrUnavailable, Unsent: abstractions.ErrUnavailable, Refused: abstractions.ErrThrottled, Denied: abstractions.ErrDenied,
		NotSetUp: abstractions.ErrNotSetUp, Invalid: abstractions.ErrInvalid, Closed: abstractions.ErrClosed,
	} {
		err := Meaning{Class: class, Advice: "do that"}.Of(errClient)
		require.ErrorIs(t, err, want)
		require.ErrorIs(t, err, errClient)
		require.Equal(t, class != Unknown, abstractions.NotApplied(err), class)
		require.Equal(t, want.Error()+": E42; do that", err.Error())
	}
	var throttled *abstractions.ThrottledError
	require.ErrorAs(t, Meaning{Class: Refused, RetryAfter: time.Second}.Of(errClient), &throttled)
	require.Equal(t, time.Second, throttled.RetryAfter)
}

// U10: a library's error text of many lines becomes one line, and no words are
// repeated.
func TestTextsAreShort(t *testing.T) {
	long := errors.New("GET https://host/\n-----\n{...}\n")
	err := Meaning{Text: "the service answered 503"}.Of(long)
	require.Equal(t, "backend unavailable: the service answered 503", err.Error())
	require.ErrorIs(t, err, long)

	cause := fmt.Errorf("%w: x", abstractions.ErrUnavailable)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	for _, err := range []error{
		Partial(fmt.Errorf("%w: %w", abstractions.ErrUnavailable, errClient)), Partial(Partial(errClient)),
		prefixError(abstractions.ErrUnavailable, Partial(errClient)),
		prefixError(abstractions.ErrUnavailable, withoutCause(ctx, cause)),
		prefixError(context.Canceled, prefixError(abstractions.ErrUnavailable, context.Canceled)),
	} {
		for _, words := range []string{"backend unavailable", "begun", "context canceled"} {
			require.LessOrEqual(t, strings.Count(err.Error(), words), 1, err)
		}
	}
}

// An error from a call that stopped half-way leaves the outcome unknown.
func TestPartialPromisesNothing(t *testing.T) {
	for _, promise := range []error{
		abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrInvalid, abstractions.ErrDenied,
		abstractions.ErrNotSetUp, abstractions.ErrThrottled, abstractions.ErrClosed, abstractions.ErrUnsupported,
		&abstractions.HeldError{}, &abstractions.LostError{Err: errClient}, &abstractions.ThrottledError{Err: errClient}, &abstractions.InvalidError{},
		MarkNotApplied(errClient), Meaning{Class: Denied}.Of(errClient), errClient,
	} {
		err := fmt.Errorf("around: %w", Partial(fmt.Errorf("in: %w: %w", errClient, promise)))
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.ErrorIs(t, err, errClient, "the client library's error is reachable")
		require.False(t, abstractions.NotApplied(err), promise)
		if abstractions.NotApplied(promise) {
			require.NotErrorIs(t, err, promise)
		}
		for _, target := range []any{new(*abstractions.HeldError), new(*abstractions.LostError), new(*abstractions.ThrottledError), new(*abstractions.InvalidError)} {
			require.False(t, errors.As(err, target), "%T", target)
		}
	}
	var own *ownError
	require.ErrorAs(t, Partial(fmt.Errorf("%w: %w", abstractions.ErrDenied, &ownError{})), &own)
	require.NoError(t, Partial(nil))
}

type ownError struct{}

func (*ownError) Error() string { return "own" }

func TestNotAppliedIsDefinite(t *testing.T) {
	err := fmt.Errorf("around: %w", MarkNotApplied(fmt.Errorf("%w: %w", abstractions.ErrUnavailable, errClient)))
	require.True(t, abstractions.NotApplied(err))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.ErrorIs(t, err, errClient)
	require.False(t, abstractions.NotApplied(Partial(err)))
	require.False(t, abstractions.NotApplied(errClient))
	require.False(t, abstractions.NotApplied(nil))
}
