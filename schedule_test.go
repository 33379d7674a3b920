package leasing

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/distributedleasing/leasing/internal/trust"
)

type appointment struct {
	entry
	due, early time.Duration
}

func (a *appointment) onDue(trust.Instant) {}

// TestScheduleIsWhatASortedListIs compares the heap with a plain list.
func TestScheduleIsWhatASortedListIs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newSchedule()
		all := make([]*appointment, 40)
		for i := range all {
			all[i] = &appointment{}
		}
		var in []*appointment
		moment := rapid.OneOf(rapid.Custom(func(t *rapid.T) time.Duration {
			return time.Duration(rapid.IntRange(0, 50).Draw(t, "due"))
		}), rapid.Just(trust.Forever))
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			a := all[rapid.IntRange(0, len(all)-1).Draw(t, "item")]
			switch rapid.SampledFrom([]string{"set", "set", "set", "remove", "makeDueNow"}).Draw(t, "do") {
			case "set":
				a.due, a.early = moment.Draw(t, "due"), time.Duration(0)
				s.set(a, a.due, a.early)
				if !slices.Contains(in, a) {
					in = append(in, a)
				}
			case "remove":
				s.remove(a)
				in = slices.DeleteFunc(in, func(b *appointment) bool { return a == b })
			case "makeDueNow":
				s.makeDueNow(a)
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
			for _, item := range s.take(now, nil) {
				got = append(got, item.(*appointment))
			}
			require.ElementsMatch(t, want, got)
			require.Equal(t, next, s.next(trust.Forever))
			require.Len(t, s.all(nil), len(in))
		}
	})
}

// Items that come and go wake the loop once, and it looks no later than they are due.
func TestScheduleWakesTheLoopOnceForItemsThatComeAndGo(t *testing.T) {
	s := newSchedule()
	for due := time.Duration(10); due < 15; due++ {
		item := &appointment{}
		s.set(item, due, 0)
		require.Equal(t, due == 10, len(s.wake) == 1, "%d", due)
		if due == 10 {
			<-s.wake
		}
		s.remove(item)
		require.EqualValues(t, 10, s.next(due-5))
	}
	s.set(&appointment{}, 9, 0)
	require.Len(t, s.wake, 1, "it is sooner")
	s.remove(s.all(nil)[0])
	require.EqualValues(t, trust.Forever, s.next(9), "the time has come, and nothing is due")
}

// TestScheduleTakesWhatMayComeEarly takes an item before its time along with one
// that is due.
func TestScheduleTakesWhatMayComeEarly(t *testing.T) {
	s := newSchedule()
	first, second, third := &appointment{}, &appointment{}, &appointment{}
	s.set(first, 10, 0)
	s.set(second, 12, 3)
	s.set(third, 13, 1)
	require.Empty(t, s.take(9, nil))
	require.Equal(t, []scheduled{first, second}, s.take(10, nil))
}
