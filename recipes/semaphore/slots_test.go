package semaphore

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestTheOrderVisitsEachSlotOnceBeforeItBeginsAgain(t *testing.T) {
	manager, _ := leasingtest.NewManager(t, leasing.Options{})
	for _, n := range []int{1, 2, 3, 10, 500} {
		s, err := New(manager, Options{Name: name, Permits: n})
		require.NoError(t, err)
		for range 2 {
			seen := map[int]bool{}
			for range n {
				slot, ok := s.takeSlot()
				require.True(t, ok)
				require.False(t, seen[slot])
				seen[slot] = true
				s.putSlot(slot)
			}
		}
	}
}

func TestSlotsInUseAreNotAskedFor(t *testing.T) {
	manager, _ := leasingtest.NewManager(t, leasing.Options{})
	s, err := New(manager, Options{Name: name, Permits: 3})
	require.NoError(t, err)
	for range 3 {
		_, ok := s.takeSlot()
		require.True(t, ok)
	}
	_, ok := s.takeSlot()
	require.False(t, ok)
	s.putSlot(1)
	slot, ok := s.takeSlot()
	require.True(t, ok)
	require.Equal(t, 1, slot)
}

// After 15 s of consecutive hand-overs a process does not request the slot for a second, even if no
// other process requests the slot. After that second the waiter gets the slot.
func TestASlotThatWasHandedOverForLongIsLeftAlone(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		a := s.process("a", Options{Permits: 1})
		permit := s.take(a)
		handOver := func() time.Duration {
			w := s.acquireAsync(t.Context(), a)
			began := time.Now()
			release(t, permit)
			permit = s.receive(w)
			return time.Since(began)
		}
		time.Sleep(time.Hour)
		require.Zero(t, handOver(), "the first in a row")
		for range 2 {
			time.Sleep(maxHandOverTime - 1)
			require.Zero(t, handOver())
			time.Sleep(time.Nanosecond)
			require.Equal(t, yieldFor, handOver(), "and a new row begins")
		}
		release(t, permit)
		idle(t, a)
	})
}

func TestPausesStayWithinTheirBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 1000).Draw(t, "n")
		slots := rapid.IntRange(0, MaxPermits).Draw(t, "slots")
		random := rapid.Float64Range(0, 1).Draw(t, "random")
		pause := pauseAfter(n, slots, random)
		if pause < time.Millisecond/2 || pause > longestPause {
			t.Fatalf("pause %v", pause)
		}
		if pause > max(time.Millisecond, sweepPeriod/time.Duration(max(1, slots))) {
			t.Fatalf("pause %v: %d slots take longer than %v", pause, slots, sweepPeriod)
		}
		if next := pauseAfter(n+1, slots, random); next < pause {
			t.Fatalf("%v after %v", next, pause)
		}
	})
}
