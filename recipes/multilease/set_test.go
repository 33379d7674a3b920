package multilease

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestASetShowsItsLeases(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
		set, err := Acquire(ctx, s.ours, []string{"b", "a"})
		require.NoError(t, err)
		cancel()
		synctest.Wait()
		require.NoError(t, set.Err(), "the context of the acquire has ended; the set lives on")
		require.Equal(t, "value", set.Context().Value(key{}))
		require.Len(t, set.Leases(), 2)
		require.Equal(t, "a", set.Leases()[0].Name())
		require.Equal(t, "b", set.Lease("b").Name())
		require.Nil(t, set.Lease("c"))
		require.Greater(t, set.Remaining(), ttl/3)
		require.Less(t, set.Remaining(), ttl)

		require.NoError(t, set.Release(t.Context()))
		require.Zero(t, set.Remaining())
		require.Equal(t, leasing.ErrReleased, set.Err())
		require.Equal(t, leasing.ErrReleased, context.Cause(set.Context()))
		require.NoError(t, set.Release(t.Context()), "again")
		require.Equal(t, 2, s.provider.Count(leasingtest.Release))
	})
}

func TestTheLossOfOneLeaseEndsTheSet(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		set := s.acquire("a", "b", "c")
		leasingtest.Lose(t, s.provider, set.Lease("b"), leasing.LostTaken)
		<-set.Done()
		cause := context.Cause(set.Context())
		require.EqualError(t, cause, `multilease: "b": lease lost: taken`)
		require.ErrorIs(t, cause, leasing.ErrLost)
		require.Equal(t, cause, set.Err())
		time.Sleep(5 * ttl)
		require.Equal(t, []string{"ours", "-", "ours"}, s.holders("a", "b", "c"), "the others are held until the work has stopped")

		err := set.Release(t.Context())
		require.ErrorIs(t, err, leasing.ErrLost)
		require.Equal(t, []string{"-", "-", "-"}, s.holders("a", "b", "c"))
		require.Equal(t, err.Error(), set.Release(t.Context()).Error(), "again")
		require.Equal(t, cause, set.Err(), "the release does not hide the loss")
	})
}

func TestReleaseErrorsAreJoined(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		set := s.acquire("a", "b", "c")
		s.provider.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Release && call.Name != "b" {
				return fmt.Errorf("no route to %s: %w", call.Name, leasing.ErrDenied)
			}
			return apply()
		})
		err := set.Release(t.Context())
		require.ErrorContains(t, err, "no route to a")
		require.ErrorContains(t, err, "no route to c")
		require.Equal(t, []string{"ours", "-", "ours"}, s.holders("a", "b", "c"))
	})
}

// The releases wait for a hanging backend in parallel, for a second each.
func TestReleaseWithAnEndedContextIsShort(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		set := s.acquire("a", "b", "c", "d", "e", "f", "g", "h")
		defer s.provider.Use(leasingtest.Hang(leasingtest.Release, leasingtest.Always))()
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		began := time.Now()
		require.Error(t, set.Release(ctx))
		require.Less(t, time.Since(began), 2*time.Second)
	})
}

func TestDoReleasesWhenTheFunctionHasReturned(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		boom := errors.New("boom")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := Do(ctx, s.ours, []string{"a", "b"}, func(ctx context.Context, set *Set) error {
			require.NoError(t, set.Err())
			cancel(errStop)
			<-ctx.Done()
			require.Equal(t, errStop, context.Cause(ctx))
			time.Sleep(5 * ttl) // cleaning up
			require.Equal(t, []string{"ours", "ours"}, s.holders("a", "b"))
			require.NoError(t, set.Err())
			return boom
		})
		require.Equal(t, boom, err)
		require.Equal(t, []string{"-", "-"}, s.holders("a", "b"))
	})
}

func TestReleaseInsideDoOnlyEndsTheWork(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		err := Do(t.Context(), s.ours, []string{"a", "b"}, func(ctx context.Context, set *Set) error {
			require.NoError(t, set.Release(ctx))
			require.Equal(t, leasing.ErrReleased, context.Cause(ctx))
			require.Equal(t, []string{"ours", "ours"}, s.holders("a", "b"))
			return nil
		})
		require.NoError(t, err)
		require.Equal(t, []string{"-", "-"}, s.holders("a", "b"))
	})
}

func TestDoReportsALossAlthoughTheWorkSucceeded(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		lose := func(answer func(ctx context.Context) error) error {
			return Do(t.Context(), s.ours, []string{"a", "b"}, func(ctx context.Context, set *Set) error {
				leasingtest.Lose(t, s.provider, set.Lease("a"), leasing.LostBroken)
				<-ctx.Done()
				return answer(ctx)
			})
		}
		require.ErrorIs(t, lose(func(context.Context) error { return nil }), leasing.ErrLost)

		err := lose(context.Cause)
		require.EqualError(t, err, `multilease: "a": lease lost: broken`, "reported once")

		boom := errors.New("boom")
		err = lose(func(context.Context) error { return boom })
		require.ErrorIs(t, err, boom)
		require.ErrorIs(t, err, leasing.ErrLost)
	})
}

func TestDoReleasesAfterAPanic(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		require.PanicsWithValue(t, "boom", func() {
			_ = Do(t.Context(), s.ours, []string{"a", "b"}, func(context.Context, *Set) error { panic("boom") })
		})
		require.Equal(t, []string{"-", "-"}, s.holders("a", "b"))
	})
}

func TestASetEndsWithItsManager(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		result := make(chan error, 1)
		go func() {
			result <- Do(t.Context(), s.ours, []string{"a", "b"}, func(ctx context.Context, _ *Set) error {
				<-ctx.Done()
				return context.Cause(ctx)
			})
		}()
		synctest.Wait()
		require.NoError(t, s.ours.Close(t.Context()))
		require.ErrorIs(t, receive(t, result), leasing.ErrClosed)
		require.Equal(t, []string{"-", "-"}, s.holders("a", "b"))
	})
}
