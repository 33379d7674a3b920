package leasing

import (
	"container/heap"
	"sync"
	"time"
)

// scheduled is something with a next moment: a lease, a clean-up.
type scheduled interface {
	// onDue is called by the manager's loop when its time has come, and
	// after a resume from suspend. It must not block. It schedules itself anew.
	onDue(now instant)
	scheduleEntry() *entry
}

// entry is a place in the schedule. Its fields belong to the schedule's lock.
type entry struct {
	due time.Duration // monotonic
	// early is how much sooner it may be taken, along with others.
	early time.Duration
	index int // in the heap, from 1; 0 outside
}

func (e *entry) scheduleEntry() *entry { return e }

// schedule is a heap of what is due when, for one loop to wait on: a timer and
// a goroutine for all, whether there are ten leases or a hundred thousand.
type schedule struct {
	mu     sync.Mutex
	heap   dueHeap
	wakeAt time.Duration // when the loop will look again by itself
	wake   chan struct{} // tells it to look now
}

func newSchedule() *schedule {
	return &schedule{wake: make(chan struct{}, 1), wakeAt: forever}
}

// set places s at due, which may be forever, and wakes the loop if that is
// sooner than it would look.
func (s *schedule) set(item scheduled, due, early time.Duration) {
	s.mu.Lock()
	e := item.scheduleEntry()
	e.due, e.early = due, early
	if e.index == 0 {
		heap.Push(&s.heap, item)
	} else {
		heap.Fix(&s.heap, e.index-1)
	}
	sooner := due < s.wakeAt
	s.mu.Unlock()
	if sooner {
		s.poke()
	}
}

func (s *schedule) remove(item scheduled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := item.scheduleEntry(); e.index != 0 {
		heap.Remove(&s.heap, e.index-1)
	}
}

// take returns what is due and parks it at forever until it sets itself again.
func (s *schedule) take(now time.Duration, into []scheduled) []scheduled {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.heap) > 0 {
		e := s.heap[0].scheduleEntry()
		if e.due == forever || e.due-e.early > now {
			break
		}
		into = append(into, s.heap[0])
		e.due, e.early = forever, 0
		heap.Fix(&s.heap, 0)
	}
	return into
}

func (s *schedule) all(into []scheduled) []scheduled {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append(into, s.heap...)
}

// hurry makes an item due now.
func (s *schedule) hurry(item scheduled) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := item.scheduleEntry(); e.index != 0 {
		e.due = 0
		heap.Fix(&s.heap, e.index-1)
		s.poke()
	}
}

// next returns the time of the first item, and remembers that the loop will
// sleep until then.
func (s *schedule) next() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wakeAt = forever
	if len(s.heap) > 0 {
		s.wakeAt = s.heap[0].scheduleEntry().due
	}
	return s.wakeAt
}

func (s *schedule) poke() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

type dueHeap []scheduled

func (h dueHeap) Len() int           { return len(h) }
func (h dueHeap) Less(i, j int) bool { return h[i].scheduleEntry().due < h[j].scheduleEntry().due }
func (h dueHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].scheduleEntry().index, h[j].scheduleEntry().index = i+1, j+1
}

func (h *dueHeap) Push(x any) {
	item := x.(scheduled)
	*h = append(*h, item)
	item.scheduleEntry().index = len(*h)
}

func (h *dueHeap) Pop() any {
	old := *h
	item := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	item.scheduleEntry().index = 0
	return item
}

// suspendResolution is how far the two clocks may drift apart between two
// looks, by being read one after the other, without it being a suspend.
const suspendResolution = time.Millisecond

// run is the manager's loop: it ends leases whose trust has run out and hands
// renewals to the engine. It sends no request and calls no observer, so
// nothing delays an expiry.
func (m *manager) run() {
	timer := time.NewTimer(forever)
	defer timer.Stop()
	var (
		due    []scheduled
		offset time.Duration // boot less mono at the last look
	)
	for {
		now := m.clock.now()
		m.asleep.Store(int64(now.boot - now.mono)) // before the look: see lease.reschedule
		if now.boot-now.mono > offset+suspendResolution {
			due = m.schedule.all(due[:0])
		} else {
			due = m.schedule.take(now.mono, due[:0])
		}
		offset = now.boot - now.mono
		for _, item := range due {
			item.onDue(now)
		}
		clear(due)
		m.engine.dispatch()

		if next := m.schedule.next(); next == forever {
			timer.Stop()
			m.clock.setAlarm(forever)
		} else {
			in := next - m.clock.now().mono
			timer.Reset(in)
			m.clock.setAlarm(in)
		}
		if after := m.clock.now(); after.boot-after.mono > offset+suspendResolution {
			continue // a suspend before the alarm was set, which it knows nothing of
		}
		select {
		case <-timer.C:
		case <-m.clock.resumed():
		case <-m.schedule.wake:
		case <-m.lifetime.Done():
			return
		}
	}
}
