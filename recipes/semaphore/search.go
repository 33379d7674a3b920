package semaphore

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

const (
	// firstProbes is the number of failed probes after which a search starts to watch.
	firstProbes = 8
	// maxProbes bounds the probes of a search that are in flight.
	maxProbes = 8
	// maxHandOverTime is the time for which a slot may be handed over from one waiter of
	// this process to the next. After that the process does not request the
	// slot for yieldFor, so that other processes get a turn. yieldFor equals the default longest
	// pause of a leasing.Manager that polls.
	maxHandOverTime = 15 * time.Second
	yieldFor        = time.Second
)

// errOtherSlot ends the wait for one slot in favour of another.
var errOtherSlot = errors.New("semaphore: waits for another slot now")

// search looks for free slots on behalf of all waiters. It begins with the
// first waiter and ends with the last. Each permit goes to the waiter at the
// head of the queue, whichever request acquired the permit.
//
// First it probes: it requests one slot for each waiter. After firstProbes failures it watches: it
// waits for a few slots, and probes another slot from time to time.
type search struct {
	ctx       context.Context
	end       context.CancelFunc
	watching  chan struct{} // closed when it begins to watch
	last      error         // the last answer without a lease; nil before the first
	probes    int           // the number of slots still to probe
	probing   int           // probes in flight
	handOvers int           // probes in flight for slots that were released in this process
	waiting   int           // requests in flight that wait for a slot
}

func (r *search) isWatching() bool {
	select {
	case <-r.watching:
		return true
	default:
		return false
	}
}

// dispatch starts the next requests after any change. Caller holds mu.
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
		r = &search{watching: make(chan struct{}), probes: s.probeBudget()}
		r.ctx, r.end = context.WithCancel(context.Background())
		s.search = r
	}
	for r.probes > 0 && r.probing < min(maxProbes, len(s.queue)) {
		slot, ok := s.takeSlot()
		if !ok {
			break
		}
		go s.probe(s.queue[r.probing].ctx, r, slot, false)
		r.probes--
		r.probing++
	}
	// Requests of TryAcquire or of an earlier search may be about to end, which makes their slots
	// available to this search.
	others := s.options.Permits - len(s.free) - s.held - r.probing - r.handOvers - r.waiting
	if !r.isWatching() && r.probing == 0 && (r.probes == 0 || others == 0) {
		close(r.watching)
		go s.watchSlots(r)
	}
}

// probeBudget returns the number of slots to probe: at most the number that may be free.
func (s *Semaphore) probeBudget() int { return min(firstProbes, s.options.Permits-s.held) }

// probe requests a slot once. The request carries the values of its waiter's context, so that a
// trace shows the waiter.
func (s *Semaphore) probe(values context.Context, r *search, slot int, handOver bool) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(values))
	defer cancel()
	defer context.AfterFunc(r.ctx, cancel)()
	lease, err := s.manager.With(s.lease).TryAcquire(ctx, s.options.slotName(slot))
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case handOver:
		r.handOvers--
		if err == nil && s.handOverSince[slot].IsZero() {
			s.handOverSince[slot] = time.Now()
		}
	case err == nil:
		r.probing--
		r.probes = s.probeBudget() // other slots may also be free
	default:
		r.probing--
		if !errors.Is(err, leasing.ErrHeld) {
			r.probes = 0 // the next probe would fail as well
		}
	}
	s.handleAnswer(r, answer{slot, lease, err})
}

// waitForSlot waits for a slot, for a limited time. The manager decides which errors end the wait.
func (s *Semaphore) waitForSlot(r *search, slot int) {
	limit := sweepPeriod + rand.N(sweepPeriod)
	if s.options.Permits <= s.watchedSlots {
		limit = leasing.Infinite // there is no other slot
	}
	ctx, cancel := context.WithTimeoutCause(r.ctx, limit, errOtherSlot)
	defer cancel()
	lease, err := s.manager.With(s.lease).Acquire(ctx, s.options.slotName(slot))
	s.mu.Lock()
	defer s.mu.Unlock()
	r.waiting--
	if err != nil && ctx.Err() == nil {
		s.failAll(err)
	}
	s.handleAnswer(r, answer{slot, lease, err})
}

// handleAnswer processes the answer to a request. Caller holds mu.
func (s *Semaphore) handleAnswer(r *search, a answer) {
	if a.err == nil {
		s.held++
		s.deliver(a)
		return
	}
	r.last = a.err
	s.putSlot(a.slot)
	s.dispatch()
}

// returnSlot takes back a slot that this process held. If there is a waiter, returnSlot requests the
// slot again, unless it is the turn of other processes. Locks mu.
func (s *Semaphore) returnSlot(slot int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.search
	switch since, handedOver := s.handOverSince[slot]; {
	case r == nil || r.handOvers >= len(s.queue):
		s.held--
		s.putSlot(slot)
	case handedOver && time.Since(since) >= maxHandOverTime:
		delete(s.handOverSince, slot)
		time.AfterFunc(yieldFor, func() { s.returnSlot(slot) })
	default:
		s.held--
		go s.probe(s.queue[r.handOvers].ctx, r, slot, true)
		r.handOvers++
	}
	s.dispatch()
}

// watchSlots runs the watching part of a search.
func (s *Semaphore) watchSlots(r *search) {
	for n := 0; r.ctx.Err() == nil; n++ {
		recipe.Sleep(r.ctx, s.watchOnce(r, n))
	}
}

// watchOnce starts waits until watchedSlots slots are watched, probes another slot, and returns the
// pause before the next call. Locks mu.
func (s *Semaphore) watchOnce(r *search, n int) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.search != r {
		return 0
	}
	for r.waiting < s.watchedSlots { // before the probe, which could take the same slot
		slot, ok := s.takeSlot()
		if !ok {
			break
		}
		go s.waitForSlot(r, slot)
		r.waiting++
	}
	if n > 0 {
		r.probes = max(r.probes, 1)
		s.dispatch()
	}
	pause := pauseAfter(n, len(s.free), rand.Float64())
	if throttled := (*leasing.ThrottledError)(nil); errors.As(r.last, &throttled) {
		pause = max(pause, min(throttled.RetryAfter, maxThrottle))
	}
	return pause
}
