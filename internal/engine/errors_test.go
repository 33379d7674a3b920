package engine

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// permanent classifies every sentinel.
func TestPermanentErrors(t *testing.T) {
	for _, test := range []struct {
		err       error
		permanent bool
	}{
		{&abstractions.HeldError{}, false},
		{&abstractions.LostError{Reason: abstractions.LostTaken}, false},
		{abstractions.ErrReleased, true},
		{abstractions.ErrClosed, true},
		{abstractions.ErrUnavailable, false},
		{&abstractions.ThrottledError{}, false},
		{&abstractions.InvalidError{}, true},
		{abstractions.ErrDenied, false},
		{abstractions.ErrNotSetUp, true},
		{abstractions.ErrStale, false},
		{abstractions.ErrUnsupported, true},
		{errors.New("of the SDK"), false},
	} {
		wrapped := error(&abstractions.Error{Op: "renew", Name: "n", Provider: "p", Err: test.err})
		require.Equal(t, test.permanent, isPermanent(wrapped), test.err)
	}
}

func TestAsUnavailableAddsTheClassOnce(t *testing.T) {
	require.EqualError(t, asUnavailable(asUnavailable(errors.New("sdk says no"))), "backend unavailable: sdk says no")
}
