package instrument

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// The metrics name each kind of error.
func TestErrorType(t *testing.T) {
	for want, err := range map[string]error{
		"held":        &abstractions.HeldError{},
		"lost":        &abstractions.LostError{Reason: abstractions.LostTaken},
		"released":    abstractions.ErrReleased,
		"handed_over": abstractions.ErrHandedOver,
		"closed":      abstractions.ErrClosed,
		"unavailable": abstractions.ErrUnavailable,
		"throttled":   &abstractions.ThrottledError{},
		"invalid":     &abstractions.InvalidError{},
		"denied":      abstractions.ErrDenied,
		"setup":       abstractions.ErrNotSetUp,
		"stale":       abstractions.ErrStale,
		"unsupported": abstractions.ErrUnsupported,
		"timeout":     context.DeadlineExceeded,
		"canceled":    context.Canceled,
		"other":       errors.New("of the SDK"),
	} {
		require.Equal(t, want, errorType(&abstractions.Error{Op: "renew", Name: "n", Provider: "p", Err: err}))
	}
}
