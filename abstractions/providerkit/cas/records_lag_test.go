package cas

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// A client library that sends a request twice may get a conflict with its own first
// request, so a later error leaves the outcome of the call unknown.
func TestTrap_T14_AfterAConflictNoErrorIsDefinite(t *testing.T) {
	for _, refusal := range []error{abstractions.ErrThrottled, abstractions.ErrDenied, abstractions.ErrNotSetUp} {
		s, store := newMemoryStore(time.Second)
		grant := s.mustAcquire(t, "mine", time.Minute)
		store.after = func() error {
			store.before = func() error { return refusal }
			return ErrConflict
		}
		_, err := s.Renew(t.Context(), renewal(grant))
		require.ErrorIs(t, err, abstractions.ErrUnavailable)
		require.NotErrorIs(t, err, refusal)
		require.False(t, abstractions.NotApplied(err))
		store.before = func() error { return refusal }
		_, err = s.Renew(t.Context(), renewal(grant))
		require.ErrorIs(t, err, refusal, "in the first round it is the whole story")
		require.True(t, abstractions.NotApplied(err))
	}
}

// After a failed Put, the stored item is read only if the read can show the outcome.
func TestARefusedPutIsNotReadBack(t *testing.T) {
	s, store := newMemoryStore(time.Second)
	throttled := errors.New("429")
	s.Classify = func(err error) providerkit.Meaning {
		if errors.Is(err, throttled) {
			return providerkit.Meaning{Class: providerkit.Refused}
		}
		return providerkit.Meaning{}
	}
	grant := s.mustAcquire(t, "mine", time.Minute)
	for err, looks := range map[error]int{throttled: 0, errors.New("reset"): 1} {
		gets := store.gets
		store.before = func() error { return err }
		_, got := s.Renew(t.Context(), renewal(grant))
		require.ErrorIs(t, got, err)
		require.Equal(t, gets+looks, store.gets)
	}
}

// A store that hides an item but keeps its key occupied causes an error, and not endless attempts.
func TestTrap_T45_ARecordThatCanNeitherBeCreatedNorRead(t *testing.T) {
	s, store := newMemoryStore(time.Second)
	var again func() error
	again = func() error { store.before = again; return ErrConflict }
	store.before = again
	_, err := s.Acquire(t.Context(), acquire("mine", time.Minute))
	require.ErrorIs(t, err, abstractions.ErrUnavailable)
	require.Equal(t, maxCreations+1, store.gets)
}

// T20, T63: a read that lags shows an earlier state. The only conclusion that a call may
// draw from it is ErrHeld.
func TestTrap_T63_AReadThatLagsDecidesNothing(t *testing.T) {
	lagging := func() (*Records, *memoryStore) {
		s, store := newMemoryStore(time.Second)
		s.Lagging = true
		return s, store
	}
	t.Run("a claim that was broken", func(t *testing.T) {
		s, store := lagging()
		s.mustAcquire(t, "mine", time.Hour)
		store.stale()
		_, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
		require.NoError(t, err)
		store.lag = 1
		_, err = s.Acquire(t.Context(), acquire("mine", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrReleased)
	})
	t.Run("a claim of later", func(t *testing.T) {
		s, store := lagging()
		s.mustAcquire(t, "before", time.Minute)
		require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "before"}))
		store.stale()
		req := renewal(s.mustAcquire(t, "mine", time.Minute))
		req.State = nil
		store.lag = 1
		_, err := s.Renew(t.Context(), req)
		require.NoError(t, err)
	})
	t.Run("a renewal", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, store := lagging()
			grant := s.mustAcquire(t, "mine", time.Minute)
			store.stale()
			time.Sleep(50 * time.Second)
			grant, err := s.Renew(t.Context(), renewal(grant))
			require.NoError(t, err)
			time.Sleep(50 * time.Second)
			req := renewal(grant)
			req.State = nil
			store.lag = 1
			_, err = s.Renew(t.Context(), req)
			require.NoError(t, err, "what was read had run out")
		})
	})
	for _, immediate := range []bool{true, false} {
		t.Run(fmt.Sprint("a break, at once ", immediate), func(t *testing.T) {
			s, store := lagging()
			s.mustAcquire(t, "before", time.Minute)
			_, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
			require.NoError(t, err)
			store.stale()
			require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "before"}))
			grant := s.mustAcquire(t, "mine", time.Minute)
			store.lag = 1
			_, err = s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: immediate})
			require.ErrorIs(t, err, abstractions.ErrUnavailable, "it was shown a lease that has ended")
			store.lag = 1
			result, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: immediate, IfToken: grant.Token})
			require.NoError(t, err)
			require.True(t, result.WasHeld)
			_, err = s.Renew(t.Context(), renewal(grant))
			lostBecause(t, err, abstractions.LostBroken)
		})
	}
	t.Run("a break of nobody", func(t *testing.T) {
		s, store := lagging()
		store.stale()
		grant := s.mustAcquire(t, "mine", time.Minute)
		store.lag = 1
		result, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
		require.NoError(t, err)
		require.Equal(t, abstractions.BreakResult{WasHeld: true, Token: grant.Token}, result)
	})
}

// T25: Records that share a store neither list nor sweep each other's items.
func TestTrap_T25_RecordsUnderOtherKeysAreNotListed(t *testing.T) {
	s, store := newMemoryStore(time.Second)
	s.mustAcquire(t, "mine", time.Minute)
	others := &Records{Store: store, Key: func(name string) string { return "other/" + name }, Expiry: s.Expiry}
	page, err := others.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	require.Empty(t, page.Records)
	page, err = s.List(t.Context(), abstractions.ListRequest{})
	require.NoError(t, err)
	require.Len(t, page.Records, 1)
}

// With ManualSweep a release sends only its own requests.
func TestAManualSweepIsNotMadeByReleases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newMemoryStore(time.Second)
		s.Retention, s.ManualSweep = time.Hour, true
		for i := range 10 {
			req := acquire("mine", time.Minute)
			req.Name = fmt.Sprint("n", i)
			_, err := s.Acquire(t.Context(), req)
			require.NoError(t, err)
		}
		time.Sleep(2 * time.Hour)
		require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "other", ID: "mine"}))
		require.Len(t, store.items, 11)
		forgotten, next, err := s.SweepPage(t.Context(), "")
		require.NoError(t, err)
		require.Empty(t, next)
		require.Equal(t, 10, forgotten)
	})
}

// T20, T14: if the outcome of a confirming write is ambiguous, the read after it may lag like the
// first read, and does not confirm the conclusion.
func TestTrap_T14_AnAmbiguousConfirmationConfirmsNothing(t *testing.T) {
	lost := errors.New("connection reset")
	s, store := newMemoryStore(time.Second)
	s.Lagging = true
	s.mustAcquire(t, "mine", time.Hour)
	store.stale()
	_, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
	require.NoError(t, err)
	s.mustAcquire(t, "theirs", time.Hour)
	store.lag = 2
	store.before = func() error { return lost }
	_, err = s.Acquire(t.Context(), acquire("mine", time.Minute))
	require.ErrorIs(t, err, lost, "there would be two holders")

	s, store = newMemoryStore(time.Second)
	s.Lagging = true
	s.mustAcquire(t, "before", time.Minute)
	require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "before"}))
	store.stale()
	s.mustAcquire(t, "theirs", time.Hour)
	store.lag = 2
	store.before = func() error { return lost }
	_, err = s.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
	require.ErrorIs(t, err, lost, "the lease there is was not met")
}

// A claim runs out while its reply is in flight. Once a break, or any other call, has
// found the name free, the claim can't be renewed.
func TestALateReplyProlongsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newMemoryStore(time.Second)
		store.after = func() error { time.Sleep(9 * time.Second); return errors.New("connection reset") }
		grant := s.mustAcquire(t, "mine", 10*time.Second)
		time.Sleep(5 * time.Second)
		result, err := s.Break(t.Context(), abstractions.BreakRequest{Name: "n"})
		require.NoError(t, err)
		require.False(t, result.WasHeld)
		_, err = s.Renew(t.Context(), renewal(grant))
		require.ErrorIs(t, err, abstractions.ErrLost)
	})
}
