package timetable

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing/internal/trust"
)

type appointment struct {
	Entry
	due, early time.Duration
}

func (a *appointment) OnDue(trust.Instant) {}

// TestTimetableIsASortedList compares the heap with a plain list.
func TestTimetableIsASortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := New(trust.NewClock(nil, nil))
		all := make([]*appointment, 40)
		for i := range all {
			all[i] = &appointment{}
		}
		var in []*appointment
		instant := rapid.OneOf(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 50).Draw(t, "due"))
		}), rapid.Just(trust.Forever))
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			a := all[rapid.IntRange(0, len(all)-1).Draw(t, "item")]
			switch rapid.SampledFrom([]string{"set", "set", "set", "remove", "makeDueNow"}).Draw(t, "do") {
			case "set":
				a.due, a.early = instant.Draw(t, "due"), time.Duration(0)
				s.Set(a, a.due, a.early)
				if !slices.Contains(in, a) {
					in = append(in, a)
				}
			case "remove":
				s.Remove(a)
				in = slices.DeleteFunc(in, func(b *appointment) bool { return a == b })
			case "makeDueNow":
				s.MakeDueNow(a)
				a.due = 0
			}
			now := time.Duration(rapid.IntRange(0, 60).Draw(t, "now"))
			var want, got []*appointment
			next := trust.Forever
			for _, b := range in {
				next = min(next, b.due)
				if b.due != trust.Forever && b.due <= now {
					want = append(want, b)
				}
			}
			for _, item := range s.dueItems(now, nil) {
				got = append(got, item.(*appointment))
			}
			require.ElementsMatch(t, want, got)
			require.Equal(t, next, s.next(trust.Forever))
			require.Len(t, s.All(nil), len(in))
		}
	})
}

// Items that come and go wake the loop only once, and the loop looks no later than they are due.
func TestItemsThatComeAndGoWakeTheLoopOnce(t *testing.T) {
	s := New(trust.NewClock(nil, nil))
	for due := time.Duration(10); due < 15; due++ {
		item := &appointment{}
		s.Set(item, due, 0)
		require.Equal(t, due == 10, len(s.wake) == 1, "%d", due)
		if due == 10 {
			<-s.wake
		}
		s.Remove(item)
		require.EqualValues(t, 10, s.next(due-5))
	}
	s.Set(&appointment{}, 9, 0)
	require.Len(t, s.wake, 1, "it is sooner")
	s.Remove(s.All(nil)[0])
	require.EqualValues(t, trust.Forever, s.next(9), "the time has come, and nothing is due")
}

// TestItemsMayBeTakenEarly takes an item before its time, along with an item that is due.
func TestItemsMayBeTakenEarly(t *testing.T) {
	s := New(trust.NewClock(nil, nil))
	first, second, third := &appointment{}, &appointment{}, &appointment{}
	s.Set(first, 10, 0)
	s.Set(second, 12, 3)
	s.Set(third, 13, 1)
	require.Empty(t, s.dueItems(9, nil))
	require.Equal(t, []Item{first, second}, s.dueItems(10, nil))
}
