package semaphore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestTheOrderVisitsEachSlotOnceBeforeItBeginsAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 500).Draw(t, "n")
		s := newSlots(n)
		for range 2 {
			seen := map[int]bool{}
			for range n {
				slot, ok := s.next(time.Time{})
				if !ok || seen[slot] {
					t.Fatalf("slot %d of %d, ok %v, seen before: %v", slot, n, ok, seen[slot])
				}
				seen[slot] = true
				s.put(slot)
			}
		}
	})
}

func TestSlotsInUseAreNotAskedFor(t *testing.T) {
	s := newSlots(3)
	for range 3 {
		_, ok := s.next(time.Time{})
		require.True(t, ok)
	}
	_, ok := s.next(time.Time{})
	require.False(t, ok)
	s.put(1)
	slot, ok := s.next(time.Time{})
	require.True(t, ok)
	require.Equal(t, 1, slot)
}

func TestASlotThatWasHandedOverForLongRests(t *testing.T) {
	s := newSlots(50)
	now := time.Now()
	for range 50 {
		slot, _ := s.next(now)
		s.hold(slot)
	}
	require.False(t, s.tired(7, now.Add(time.Hour)), "it has never been handed over")
	s.handedOver(7, now)
	s.handedOver(7, now.Add(keepFor-1))
	require.False(t, s.tired(7, now.Add(keepFor-1)))
	require.True(t, s.tired(7, now.Add(keepFor)))
	s.put(7)
	s.next(now)
	require.False(t, s.tired(7, now.Add(keepFor)), "others may have had it")

	s.rest(7, now)
	require.Zero(t, s.available(now.Add(restFor-1)))
	_, ok := s.next(now.Add(restFor - 1))
	require.False(t, ok)
	for i := range 50 {
		if i != 7 {
			s.put(i)
		}
	}
	slot, ok := s.next(now.Add(restFor))
	require.True(t, ok)
	require.Equal(t, 7, slot, "it comes first")
	require.False(t, s.tired(7, now.Add(2*keepFor)), "and begins anew")
	require.Equal(t, 49, s.available(now.Add(restFor)))
}

func TestPausesStayWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{Sweep: time.Duration(rapid.Int64Range(int64(time.Second), int64(maxSweep)).Draw(t, "sweep"))}
		n := rapid.IntRange(0, 1000).Draw(t, "n")
		slots := rapid.IntRange(0, MaxPermits).Draw(t, "slots")
		random := rapid.Float64Range(0, 1).Draw(t, "random")
		pause := o.pause(n, slots, random)
		if pause < time.Millisecond/2 || pause > longestPause {
			t.Fatalf("pause %v", pause)
		}
		if pause > max(time.Millisecond, o.Sweep/time.Duration(max(1, slots))) {
			t.Fatalf("pause %v: %d slots take longer than %v", pause, slots, o.Sweep)
		}
		if next := o.pause(n+1, slots, random); next < pause {
			t.Fatalf("%v after %v", next, pause)
		}
	})
}
