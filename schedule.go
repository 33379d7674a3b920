package leasing

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing/internal/trust"
)

// scheduled is an item with a due time: a lease or a clean-up.
type scheduled interface {
	// The manager's loop calls onDue when the item is due, and
	// after a resume from suspend. onDue must not block. It sets the item's next time
	// or removes the item.
	onDue(now trust.Instant)
	scheduleEntry() *entry
}

// entry is a place in the schedule. The schedule's lock guards the entry.
type entry struct {
	at int32 // in the heap, from 1; 0 outside
}

func (e *entry) scheduleEntry() *entry { return e }

// schedule is a heap of items by due time. One loop waits on the heap: a timer and
// a goroutine for all, whether there are ten leases or a hundred thousand.
type schedule struct {
	mu     sync.Mutex
	heap   []slot
	wakeAt time.Duration // when the loop will next look by itself
	wake   chan struct{} // wakes the loop now
}

// slot is an item of the heap with its time beside the item: with many leases a heap
// mostly waits for memory. So the heap touches an item itself only to set its
// place, and has few levels, since each slot has fan children.
type slot struct {
	due   time.Duration // monotonic
	early time.Duration // the time by which the item may be taken early, along with others
	item  scheduled
}

const fan = 8

func newSchedule() *schedule {
	return &schedule{wake: make(chan struct{}, 1), wakeAt: trust.Forever}
}

// set places item at due, which may be forever, and wakes the loop if due is
// sooner than its next look.
func (s *schedule) set(item scheduled, due, early time.Duration) {
	s.mu.Lock()
	e := item.scheduleEntry()
	if e.at == 0 {
		s.heap = append(s.heap, slot{})
		e.at = int32(len(s.heap))
	}
	s.fix(int(e.at)-1, slot{due: due, early: early, item: item})
	sooner := due < s.wakeAt
	s.wakeAt = min(s.wakeAt, due)
	s.mu.Unlock()
	if sooner {
		signal(s.wake)
	}
}

func (s *schedule) remove(item scheduled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := item.scheduleEntry()
	if e.at == 0 {
		return
	}
	hole, end := int(e.at)-1, len(s.heap)-1
	e.at = 0
	last := s.heap[end]
	s.heap[end] = slot{}
	s.heap = s.heap[:end]
	if hole < end {
		s.fix(hole, last)
	}
}

// take adds the items that are due. They stay in their places until onDue has set their next time.
func (s *schedule) take(now time.Duration, into []scheduled) []scheduled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.collect(0, now, into)
}

// collect adds the due items at i and below; an item below is not due before its parent. Caller holds mu.
func (s *schedule) collect(i int, now time.Duration, into []scheduled) []scheduled {
	if i >= len(s.heap) {
		return into
	}
	if place := &s.heap[i]; place.due == trust.Forever || place.due-place.early > now {
		return into
	}
	into = append(into, s.heap[i].item)
	for child := fan*i + 1; child <= fan*i+fan; child++ {
		into = s.collect(child, now, into)
	}
	return into
}

func (s *schedule) all(into []scheduled) []scheduled {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.heap {
		into = append(into, s.heap[i].item)
	}
	return into
}

// makeDueNow makes an item due now.
func (s *schedule) makeDueNow(item scheduled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := item.scheduleEntry(); e.at != 0 {
		s.fix(int(e.at)-1, slot{item: item})
		signal(s.wake)
	}
}

// next returns and remembers the time of the loop's next look: the due time of the first
// item. Without items it keeps the earlier time, since a lone lease that comes and
// goes would wake the loop each time: half of the client's CPU time with a fast server.
func (s *schedule) next(now time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case len(s.heap) > 0:
		s.wakeAt = s.heap[0].due
	case s.wakeAt <= now:
		s.wakeAt = trust.Forever
	}
	return s.wakeAt
}

// fix replaces the slot at i. It moves the hole towards the root or the leaves until
// the new slot fits in. Caller holds mu.
func (s *schedule) fix(i int, place slot) {
	for i > 0 && place.due < s.heap[(i-1)/fan].due {
		s.put(i, s.heap[(i-1)/fan])
		i = (i - 1) / fan
	}
	for fan*i+1 < len(s.heap) {
		least := fan*i + 1
		for child := least + 1; child < min(fan*i+fan+1, len(s.heap)); child++ {
			if s.heap[child].due < s.heap[least].due {
				least = child
			}
		}
		if s.heap[least].due >= place.due {
			break
		}
		s.put(i, s.heap[least])
		i = least
	}
	s.put(i, place)
}

func (s *schedule) put(i int, place slot) {
	s.heap[i] = place
	place.item.scheduleEntry().at = int32(i + 1)
}

// suspendResolution bounds the drift of the two clocks between two looks
// that is no suspend: the clocks are read one after the other.
const suspendResolution = time.Millisecond

// run is the manager's loop: it ends leases whose trust has run out and hands
// renewals to the engine. It sends no request and calls no observer, so
// nothing delays an expiry.
func (m *manager) run() {
	timer := time.NewTimer(trust.Forever)
	defer timer.Stop()
	var (
		due    []scheduled
		offset time.Duration // boot less mono at the last look
	)
	for {
		now := m.clock.Now()
		m.suspended.Store(int64(now.Boot - now.Mono)) // before the look: see lease.reschedule
		if now.Boot-now.Mono > offset+suspendResolution {
			due = m.schedule.all(due[:0])
		} else {
			due = m.schedule.take(now.Mono, due[:0])
		}
		offset = now.Boot - now.Mono
		for _, item := range due {
			item.onDue(now)
		}
		clear(due)
		m.engine.dispatch()

		if next := m.schedule.next(now.Mono); next == trust.Forever {
			timer.Stop()
			m.clock.Alarm.Set(trust.Forever)
		} else {
			in := next - m.clock.Now().Mono
			timer.Reset(in)
			m.clock.Alarm.Set(in)
		}
		if after := m.clock.Now(); after.Boot-after.Mono > offset+suspendResolution {
			continue // a suspend before the alarm was set, which the alarm does not include
		}
		select {
		case <-timer.C:
		case <-m.clock.Alarm.Fired():
		case <-m.schedule.wake:
		case <-m.running.Done():
			return
		}
	}
}

// signal wakes the present or the next receiver of c. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
