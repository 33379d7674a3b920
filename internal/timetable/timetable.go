// Package timetable calls items when they are due. One loop waits for all of them, with one timer and one goroutine, whether
// there are ten leases or a hundred thousand.
//
// The loop reads the monotonic clock and the boot clock, which goes on while the machine is suspended. After a suspend it
// calls every item, since each of them may be due by the boot clock.
package timetable

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/internal/trust"
)

// Item is anything with a due time. It embeds an Entry.
type Item interface {
	// The loop calls OnDue when the item is due, and after a resume from suspend. OnDue must not block. It sets the
	// item's next time or removes the item.
	OnDue(now trust.Instant)
	timetableEntry() *Entry
}

// Entry is the place of an item in a timetable, whose lock guards the entry. The zero Entry is not in a timetable.
type Entry struct {
	index int32 // in the heap, from 1; 0 outside
}

func (e *Entry) timetableEntry() *Entry { return e }

// Timetable is a heap of items by due time, and the loop that waits on the heap. It is safe for concurrent use.
type Timetable struct {
	clock     *trust.Clock
	suspended atomic.Int64 // boot minus mono at the loop's last look

	mu     sync.Mutex
	heap   []slot
	wakeAt time.Duration // when the loop will look next, unless it is woken
	wake   chan struct{} // wakes the loop now
}

// slot stores the due time next to the item, because memory accesses dominate the cost of a large heap. The heap accesses the
// item itself only to set its index. It has few levels, since each slot has fan children.
type slot struct {
	due   time.Duration // monotonic
	early time.Duration // how much earlier the item may be taken, along with others
	item  Item
}

const fan = 8

// New returns an empty timetable on a clock.
func New(clock *trust.Clock) *Timetable {
	return &Timetable{clock: clock, wake: make(chan struct{}, 1), wakeAt: trust.Forever}
}

// Set places item at due by the monotonic clock, which may be trust.Forever, and wakes the loop if due is sooner than its
// next look. The loop may take the item earlier than due, by up to early, along with others.
func (t *Timetable) Set(item Item, due, early time.Duration) {
	t.mu.Lock()
	e := item.timetableEntry()
	if e.index == 0 {
		t.heap = append(t.heap, slot{})
		e.index = int32(len(t.heap))
	}
	t.fix(int(e.index)-1, slot{due: due, early: early, item: item})
	sooner := due < t.wakeAt
	t.wakeAt = min(t.wakeAt, due)
	t.mu.Unlock()
	if sooner {
		signal(t.wake)
	}
}

// Remove takes an item out, if it is in the timetable.
func (t *Timetable) Remove(item Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := item.timetableEntry()
	if e.index == 0 {
		return
	}
	hole, end := int(e.index)-1, len(t.heap)-1
	e.index = 0
	last := t.heap[end]
	t.heap[end] = slot{}
	t.heap = t.heap[:end]
	if hole < end {
		t.fix(hole, last)
	}
}

// dueItems adds the items that are due. They stay in their places until OnDue has set their next time.
func (t *Timetable) dueItems(now time.Duration, into []Item) []Item {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.collect(0, now, into)
}

// collect adds the due items at i and below; an item below is not due before its parent. Caller holds mu.
func (t *Timetable) collect(i int, now time.Duration, into []Item) []Item {
	if i >= len(t.heap) {
		return into
	}
	if place := &t.heap[i]; place.due == trust.Forever || place.due-place.early > now {
		return into
	}
	into = append(into, t.heap[i].item)
	for child := fan*i + 1; child <= fan*i+fan; child++ {
		into = t.collect(child, now, into)
	}
	return into
}

// All adds the items to into, in no particular order.
func (t *Timetable) All(into []Item) []Item {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i := range t.heap {
		into = append(into, t.heap[i].item)
	}
	return into
}

// MakeDueNow makes an item that is in the timetable due now.
func (t *Timetable) MakeDueNow(item Item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := item.timetableEntry(); e.index != 0 {
		t.fix(int(e.index)-1, slot{item: item})
		signal(t.wake)
	}
}

// next returns and remembers the time of the loop's next look: the due time of the first item.
// Without items it keeps the previous time. Otherwise a lone lease that comes and goes would wake
// the loop each time, which took half of the client's CPU time with a fast server.
func (t *Timetable) next(now time.Duration) time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.heap) > 0:
		t.wakeAt = t.heap[0].due
	case t.wakeAt <= now:
		t.wakeAt = trust.Forever
	}
	return t.wakeAt
}

// fix replaces the slot at i. It moves the hole towards the root or the leaves until
// the new slot fits in. Caller holds mu.
func (t *Timetable) fix(i int, place slot) {
	for i > 0 && place.due < t.heap[(i-1)/fan].due {
		t.put(i, t.heap[(i-1)/fan])
		i = (i - 1) / fan
	}
	for fan*i+1 < len(t.heap) {
		least := fan*i + 1
		for child := least + 1; child < min(fan*i+fan+1, len(t.heap)); child++ {
			if t.heap[child].due < t.heap[least].due {
				least = child
			}
		}
		if t.heap[least].due >= place.due {
			break
		}
		t.put(i, t.heap[least])
		i = least
	}
	t.put(i, place)
}

func (t *Timetable) put(i int, place slot) {
	t.heap[i] = place
	place.item.timetableEntry().index = int32(i + 1)
}

// suspendResolution is the largest drift between the two clocks, from one look to the next,
// that does not count as a suspend: the clocks are read one after the other.
const suspendResolution = time.Millisecond

// MissedSuspend reports whether the loop has seen a suspend since now was read. An item whose due time was computed
// from that reading may be due already: make it due now.
func (t *Timetable) MissedSuspend(now trust.Instant) bool {
	return t.suspended.Load() > int64(now.Boot-now.Mono+suspendResolution)
}

// Run is the loop. It calls OnDue for the items that are due, and afterLook after each look. Neither may block. It
// returns when done is closed.
func (t *Timetable) Run(done <-chan struct{}, afterLook func()) {
	timer := time.NewTimer(trust.Forever)
	defer timer.Stop()
	var (
		due    []Item
		offset time.Duration // boot minus mono at the last look
	)
	for {
		now := t.clock.Now()
		t.suspended.Store(int64(now.Boot - now.Mono)) // before the look: see MissedSuspend
		if now.Boot-now.Mono > offset+suspendResolution {
			due = t.All(due[:0])
		} else {
			due = t.dueItems(now.Mono, due[:0])
		}
		offset = now.Boot - now.Mono
		for _, item := range due {
			item.OnDue(now)
		}
		clear(due)
		afterLook()

		if next := t.next(now.Mono); next == trust.Forever {
			timer.Stop()
			t.clock.Alarm.Set(trust.Forever)
		} else {
			in := next - t.clock.Now().Mono
			timer.Reset(in)
			t.clock.Alarm.Set(in)
		}
		if after := t.clock.Now(); after.Boot-after.Mono > offset+suspendResolution {
			continue // a suspend before the alarm was set, which the alarm does not cover
		}
		select {
		case <-timer.C:
		case <-t.clock.Alarm.Fired():
		case <-t.wake:
		case <-done:
			return
		}
	}
}

// signal wakes the current or the next receiver of c. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
