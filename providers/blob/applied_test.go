package bloblease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// wrote reports whether a record was written before the last of what was sent since
// the last count.
func (w *watch) wrote() bool {
	sent := w.count()
	return slices.Contains(sent[:max(0, len(sent)-1)], write)
}

// meansAfter is means, where what was sent before the fault may have been a write that
// was applied: then the call as a whole is of unknown outcome.
func (f fault) meansAfter(wrote bool) func(error) bool {
	if wrote {
		return isUnknown
	}
	return f.means
}

// T27: "throttled", "denied", "not set up": they say that nothing was applied, so a
// call whose first write was applied does not end with one. Nobody takes such a
// lease for untouched.
func TestTrap_T27_BlobNothingWasAppliedIsNotSaidAfterAWrite(t *testing.T) {
	t.Parallel()
	for _, answer := range []struct {
		status int
		code   string
	}{{503, "ServerBusy"}, {429, ""}, {403, "AuthorizationFailure"}, {404, "ContainerNotFound"}, {409, "ContainerBeingDeleted"}, {400, "FeatureVersionMismatch"}} {
		for what, step := range map[string]verb{"release": freeLease, "release by ID": freeLease, "break": breakIt, "break at once": freeLease} {
			b := newBed(t)
			g := b.take("n", "a")
			b.watch.answers(step, answer.status, "x-ms-error-code", answer.code)
			err := halfEnding(b)[what](t.Context(), g)
			requireNoPromise(t, err, fmt.Sprint(what, answer))
			var sdk *azcore.ResponseError
			require.ErrorAs(t, err, &sdk, "the client library's error is there")
			require.Equal(t, answer.status, sdk.StatusCode)
			require.ErrorContains(t, err, fmt.Sprint(answer.status))
			b.watch.heals()
			_, err = b.try("n", "a")
			require.ErrorIs(t, err, abstractions.ErrReleased, "it was applied")
			require.NoError(t, halfEnding(b)[what](t.Context(), g), "again")
		}
	}
}

func halfEnding(b *bed) map[string]func(ctx context.Context, g abstractions.Grant) error {
	return map[string]func(ctx context.Context, g abstractions.Grant) error{
		"release": func(ctx context.Context, g abstractions.Grant) error { return b.Release(ctx, endOf(g)) },
		"release by ID": func(ctx context.Context, g abstractions.Grant) error {
			return b.Release(ctx, abstractions.ReleaseRequest{Name: g.Name, ID: g.ID})
		},
		"break": func(ctx context.Context, g abstractions.Grant) error {
			_, err := b.Break(ctx, abstractions.BreakRequest{Name: g.Name, IfToken: g.Token})
			return err
		},
		"break at once": func(ctx context.Context, g abstractions.Grant) error {
			_, err := b.Break(ctx, abstractions.BreakRequest{Name: g.Name, IfToken: g.Token, Immediate: true})
			return err
		},
	}
}

func requireNoPromise(t testing.TB, err error, what string) {
	t.Helper()
	require.ErrorIs(t, err, abstractions.ErrUnavailable, what)
	require.False(t, abstractions.NotApplied(err), what)
	for _, promise := range []error{abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp} {
		require.NotErrorIs(t, err, promise, what)
	}
	var throttled *abstractions.ThrottledError
	require.False(t, errors.As(err, &throttled), what)
}

// The same where the call begins again after its write, and meets that then.
func TestTrap_T27_BlobBreakThatBeginsAgainAfterItsWrite(t *testing.T) {
	t.Parallel()
	for _, code := range []string{"ServerBusy", "ContainerNotFound"} {
		b := newBed(t)
		g := b.take("n", "a")
		looks := 0
		b.watch.set(func(v verb, r *http.Request) (*http.Response, error) {
			switch {
			case v == breakIt:
				return answering(r, http.StatusPreconditionFailed, "x-ms-error-code", "ConditionNotMet"), nil
			case v == look:
				if looks++; looks > 1 {
					return answering(r, map[string]int{"ServerBusy": 503, "ContainerNotFound": 404}[code], "x-ms-error-code", code), nil
				}
			}
			return nil, nil
		}, nil)
		_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", IfToken: g.Token})
		requireNoPromise(t, err, code)
	}
}
