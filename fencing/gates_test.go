package fencing_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	"github.com/distributedleasing/leasing/fencing/internal/fencingtest"
)

func noop(context.Context) error { return nil }

func TestGatesKeepsResourcesApart(t *testing.T) {
	var gates fencing.Gates
	require.Zero(t, gates.Seen("a"))
	require.NoError(t, gates.Do(t.Context(), "a", 7, noop))
	require.NoError(t, gates.Do(t.Context(), "b", 6, noop))
	require.Equal(t, &fencing.StaleError{Resource: "a", Token: 6, Seen: 7}, gates.Do(t.Context(), "a", 6, noop))
	require.EqualValues(t, 7, gates.Seen("a"))
	require.EqualValues(t, 6, gates.Seen("b"))
	for _, token := range fencingtest.BadTokens {
		require.ErrorIs(t, gates.Do(t.Context(), "a", token, noop), leasing.ErrInvalid)
	}
}

// Calls for one resource run one at a time, but no resource waits for another.
func TestGatesLetsOnlyOneInToEachResource(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var gates fencing.Gates
		var mu sync.Mutex
		var inside []string
		leave := make(chan struct{})
		var wg sync.WaitGroup
		enter := func(resource string, token int64) {
			wg.Go(func() {
				assert.NoError(t, gates.Do(t.Context(), resource, token, func(context.Context) error {
					mu.Lock()
					inside = append(inside, resource)
					mu.Unlock()
					<-leave
					return nil
				}))
			})
			synctest.Wait()
		}
		enter("a", 1)
		enter("a", 2)
		enter("b", 1)
		require.Equal(t, []string{"a", "b"}, inside)
		require.EqualValues(t, 1, gates.Seen("a"), "the second has not been admitted yet")
		close(leave)
		wg.Wait()
		require.Equal(t, []string{"a", "b", "a"}, inside)
	})
}

func TestGatesConcurrentSafe(t *testing.T) {
	var gates fencing.Gates
	admitted := map[string]*[]int64{"a": {}, "b": {}, "c": {}} // each guarded by its gate
	var wg sync.WaitGroup
	for token := int64(1); token <= 50; token++ {
		for resource, list := range admitted {
			wg.Go(func() {
				err := gates.Do(t.Context(), resource, token, func(context.Context) error {
					runtime.Gosched()
					*list = append(*list, token)
					return nil
				})
				if !errors.Is(err, leasing.ErrStale) {
					assert.NoError(t, err)
				}
			})
		}
	}
	wg.Wait()
	for resource, list := range admitted {
		require.IsIncreasing(t, append([]int64{0}, *list...))
		require.EqualValues(t, 50, gates.Seen(resource))
	}
}

func TestCheckFirstRunsWhatTheCheckAdmits(t *testing.T) {
	stale := &fencing.StaleError{Resource: "a", Token: 7, Seen: 8}
	boom := errors.New("boom")
	var shown []any
	check := func(answer error) fencing.Fence {
		return fencing.CheckFirst(func(_ context.Context, resource string, token int64) error {
			shown = append(shown, resource, token)
			return answer
		})
	}
	require.Equal(t, stale, check(stale)(t.Context(), "a", 7, func(context.Context) error {
		t.Error("ran")
		return nil
	}))
	require.Equal(t, boom, check(nil)(t.Context(), "b", 8, func(context.Context) error { return boom }))
	require.Equal(t, []any{"a", int64(7), "b", int64(8)}, shown)
}
