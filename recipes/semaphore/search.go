package semaphore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing"
)

const (
	// firstLook is how many slots are asked for in vain before those who wait
	// settle down to wait.
	firstLook = 8
	// lanes bounds the requests of a search that are under way at a time.
	lanes = 8
)

// errElsewhere ends the wait for one slot in favour of another.
var errElsewhere = errors.New("semaphore: waits for another slot now")

// search looks for free slots on behalf of all who wait. It begins with the
// first of them and ends with the last. What it finds goes to whoever has
// waited longest, whichever of its requests brings it.
//
// First it asks (ask) for one slot for each who waits. When that was in vain
// often enough, a keeper sees to it that a few slots are waited for (watch),
// and that every so often another one is asked for.
type search struct {
	ctx  context.Context
	end  context.CancelFunc
	last error // the last answer that was no lease; nil before the first

	hope    int  // how many more slots to ask for
	asking  int  // requests under way for them
	hints   int  // requests under way for slots that were released here
	watched int  // slots waited for
	settled bool // it has looked in vain, and has a keeper
}

// dispatch does what there is to do next, after any change. Caller holds mu.
func (s *Semaphore) dispatch() {
	r := s.search
	if len(s.queue) == 0 {
		if r != nil {
			r.end()
			s.search = nil
		}
		return
	}
	if r == nil {
		r = &search{hope: s.firstHope()}
		r.ctx, r.end = context.WithCancel(context.Background())
		s.search = r
	}
	for r.hope > 0 && r.asking < min(lanes, len(s.queue)) {
		slot, ok := s.slots.next(time.Now())
		if !ok {
			break
		}
		values := s.queue[r.asking].ctx
		r.hope--
		r.asking++
		go s.ask(values, r, slot)
	}
	// Requests that are no part of this search, TryAcquire's and those of a
	// search before it, may be about to end and leave their slots to it.
	others := s.slots.in[asked] - r.asking - r.hints - r.watched
	if !r.settled && r.asking == 0 && (r.hope == 0 || others == 0) {
		s.settleDown(r)
	}
}

// firstHope is how many slots to ask for while it may be that many are free.
func (s *Semaphore) firstHope() int {
	return min(firstLook, len(s.slots.all)-s.slots.in[held])
}

// settleDown makes a search that has looked in vain wait, from now on.
func (s *Semaphore) settleDown(r *search) {
	r.settled = true
	for _, t := range s.queue {
		close(t.looked)
	}
	go s.keep(r)
}

// ask asks for a slot once.
func (s *Semaphore) ask(values context.Context, r *search, slot int) {
	lease, err := s.request(values, r, slot)
	s.mu.Lock()
	r.asking--
	if err == nil {
		r.hope = s.firstHope() // others may be free too
	} else if !errors.Is(err, leasing.ErrHeld) {
		r.hope = 0 // the same would meet the next request
	}
	s.answered(r, outcome{slot, lease, err})
}

// hint asks for a slot that one of us has just released.
func (s *Semaphore) hint(values context.Context, r *search, slot int) {
	lease, err := s.request(values, r, slot)
	s.mu.Lock()
	r.hints--
	if err == nil {
		s.slots.handedOver(slot, time.Now())
	}
	s.answered(r, outcome{slot, lease, err})
}

func (s *Semaphore) request(values context.Context, r *search, slot int) (leasing.Lease, error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(values))
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	return s.manager.TryAcquire(ctx, s.options.slotName(slot), &s.lease)
}

// watch waits for a slot, for a while. It leaves the judgement of which errors
// waiting can't help to the manager.
func (s *Semaphore) watch(r *search, slot int) {
	stay := s.options.Sweep + time.Duration(rand.Int64N(int64(s.options.Sweep)))
	if s.options.Permits <= s.options.Watch {
		stay = leasing.Infinite // there is no other
	}
	ctx, cancel := context.WithTimeoutCause(r.ctx, stay, errElsewhere)
	lease, err := s.manager.Acquire(ctx, s.options.slotName(slot), &s.lease)
	over := ctx.Err() != nil
	cancel()
	if err != nil && !over {
		s.fail(err)
	}
	s.mu.Lock()
	r.watched--
	s.answered(r, outcome{slot, lease, err})
}

// answered takes in the outcome of a request. Needs mu; unlocks.
func (s *Semaphore) answered(r *search, o outcome) {
	if o.err == nil {
		s.slots.hold(o.slot)
		s.mu.Unlock()
		s.handOn(o)
		return
	}
	r.last = o.err
	s.slots.put(o.slot)
	s.dispatch()
	s.mu.Unlock()
}

// returned takes back a slot that this process held, and asks for it again if
// somebody waits, unless it is the others' turn.
func (s *Semaphore) returned(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, now := s.search, time.Now()
	switch {
	case r == nil || r.hints >= len(s.queue):
		s.slots.put(slot)
	case s.slots.tired(slot, now):
		s.slots.rest(slot, now)
	default:
		s.slots.take(slot)
		r.hints++
		go s.hint(s.queue[r.hints-1].ctx, r, slot)
	}
	s.dispatch()
}

// keep keeps a search going that did not find what it needed at once.
func (s *Semaphore) keep(r *search) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for n := 0; ; n++ {
		timer.Reset(s.tend(r, n))
		select {
		case <-timer.C:
		case <-r.ctx.Done():
			return
		}
	}
}

// tend sees to it that enough slots are waited for, asks for another one, and
// returns how long to wait before the next.
func (s *Semaphore) tend(r *search, n int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.search != r {
		return 0
	}
	for r.watched < s.options.Watch { // before the rest, which may want the same slots
		slot, ok := s.slots.next(time.Now())
		if !ok {
			break
		}
		r.watched++
		go s.watch(r, slot)
	}
	if n > 0 {
		r.hope = max(r.hope, 1)
		s.dispatch()
	}
	pause := s.options.pause(n, s.slots.in[open], rand.Float64())
	if throttled := (*leasing.ThrottledError)(nil); errors.As(r.last, &throttled) {
		pause = max(pause, min(throttled.RetryAfter, maxThrottle))
	}
	return pause
}
