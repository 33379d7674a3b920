package fencing_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/internal/fencingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestCheckAcceptsEqualAndLargerTokensOnly(t *testing.T) {
	require.NoError(t, fencing.Check("r", 5, 0))
	require.NoError(t, fencing.Check("r", 5, 5))
	require.NoError(t, fencing.Check("r", 6, 5))

	err := fencing.Check("reports/daily", 4, 5)
	require.ErrorIs(t, err, leasing.ErrStale)
	require.EqualError(t, err, `stale fencing token: 4 refused, "reports/daily" has seen 5`)
	var stale *fencing.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, fencing.StaleError{Resource: "reports/daily", Token: 4, Seen: 5}, *stale)
}

// A client without a lease has token 0, and a resource that was never fenced has seen 0.
func TestCheckRefusesWhatIsNoToken(t *testing.T) {
	for _, token := range fencingtest.BadTokens {
		require.ErrorIs(t, fencing.Check("r", token, 0), leasing.ErrInvalid, token)
		if token != 0 {
			require.ErrorIs(t, fencing.Check("r", 1, token), leasing.ErrInvalid, "seen %d", token)
		}
	}
}

func TestGateRunsNothingForAStaleToken(t *testing.T) {
	var gate fencing.Gate
	require.Zero(t, gate.Seen())
	ran := 0
	run := func(token int64) error {
		return gate.Do(t.Context(), token, func(context.Context) error { ran++; return nil })
	}
	require.NoError(t, run(7))
	require.NoError(t, run(7), "the same holder again")
	require.NoError(t, run(9))
	err := run(8)
	require.ErrorIs(t, err, leasing.ErrStale)
	require.EqualError(t, err, "stale fencing token: 8 refused, the resource has seen 9")
	require.Equal(t, 3, ran)
	require.EqualValues(t, 9, gate.Seen())
}

func TestGateReturnsTheErrorOfItsFunctionAndStaysUsable(t *testing.T) {
	var gate fencing.Gate
	boom := errors.New("boom")
	require.Equal(t, boom, gate.Do(t.Context(), 1, func(context.Context) error { return boom }))
	require.Panics(t, func() {
		_ = gate.Do(t.Context(), 2, func(context.Context) error { panic("boom") })
	})
	require.NoError(t, gate.Do(t.Context(), 2, func(context.Context) error { return nil }))
}

func TestGateRefusesWhatIsNoToken(t *testing.T) {
	var gate fencing.Gate
	for _, token := range fencingtest.BadTokens {
		err := gate.Do(t.Context(), token, func(context.Context) error { t.Error("ran"); return nil })
		require.ErrorIs(t, err, leasing.ErrInvalid)
	}
	require.Zero(t, gate.Seen())
}

// A larger token also has to wait, or the work of the smaller token would end after the work of the
// larger.
func TestGateLetsNobodyInBeforeTheCallInsideIsOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate fencing.Gate
		var inside []int64
		leave := make(chan struct{})
		var wg sync.WaitGroup
		enter := func(ctx context.Context, token int64, want error) {
			wg.Go(func() {
				err := gate.Do(ctx, token, func(context.Context) error {
					inside = append(inside, token)
					<-leave
					return nil
				})
				assert.Equal(t, want, err)
			})
			synctest.Wait()
		}
		gone := errors.New("gone")
		impatient, cancel := context.WithCancelCause(t.Context())
		enter(t.Context(), 1, nil)
		enter(impatient, 2, gone)
		cancel(gone)
		enter(impatient, 3, gone)
		require.Equal(t, []int64{1}, inside)
		require.EqualValues(t, 1, gate.Seen(), "a call that gave up has shown no token")
		enter(t.Context(), 2, nil)
		require.Equal(t, []int64{1}, inside)
		close(leave)
		wg.Wait()
		require.Equal(t, []int64{1, 2}, inside)
	})
}

func TestGateRunsNothingOnceItsContextHasEnded(t *testing.T) {
	var gate fencing.Gate
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	for range 20 { // a free gate and an ended context: a select would choose at random
		require.Equal(t, gone, gate.Do(ctx, 1, func(context.Context) error { t.Error("ran"); return nil }))
	}
	require.Zero(t, gate.Seen())
}

// A call stops waiting for its turn when its context ends.
func TestGateEndsTheWaitWithTheContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gate fencing.Gate
		leave, first := make(chan struct{}), make(chan error)
		go func() {
			first <- gate.Do(context.Background(), 1, func(context.Context) error {
				<-leave
				return nil
			})
		}()
		synctest.Wait()
		gone := errors.New("gone")
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, gone)
		defer cancel()
		require.Equal(t, gone, gate.Do(ctx, 2, func(context.Context) error { t.Error("ran"); return nil }))
		close(leave)
		require.NoError(t, <-first)
		require.EqualValues(t, 1, gate.Seen())
	})
}

// Whatever the order in which holders arrive, the tokens admitted never fall,
// and calls never overlap.
func TestGateConcurrentSafe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tokens := rapid.SliceOfN(rapid.Int64Range(1, 20), 1, 40).Draw(t, "tokens")
		var gate fencing.Gate
		var admitted []int64 // guarded by the gate itself
		var wg sync.WaitGroup
		for _, token := range tokens {
			wg.Go(func() {
				err := gate.Do(context.Background(), token, func(context.Context) error {
					before := len(admitted)
					runtime.Gosched()
					if admitted = append(admitted, token); len(admitted) != before+1 {
						t.Error("two calls at a time")
					}
					return nil
				})
				if err != nil && !errors.Is(err, leasing.ErrStale) {
					t.Errorf("token %d: %v", token, err)
				}
			})
		}
		wg.Wait()
		highest := int64(0)
		for _, token := range admitted {
			if token < highest {
				t.Fatalf("%d admitted after %d", token, highest)
			}
			highest = token
		}
		if gate.Seen() != highest {
			t.Fatalf("seen %d, admitted up to %d", gate.Seen(), highest)
		}
	})
}
