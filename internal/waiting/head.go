package waiting

import (
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// maxThrottle bounds the pause that a backend may ask for.
const maxThrottle = time.Minute

// ErrLimit ends a request that is still under way some time after the wait limit.
var ErrLimit = fmt.Errorf("%w: no answer within the wait limit", abstractions.ErrUnavailable)

// Step is the next step of a head: to ask, to subscribe, to stop, or else a pause.
type Step struct {
	Ask, Subscribe, Stop bool
	Pause                time.Duration // the longest wait for a wake-up
	IgnoreWakeups        bool          // wake-ups do not end the pause
	Failed               int           // to be reported: attempts in a row that the backend did not answer
	End                  error         // why the wait stops; nil if Last is the whole reason
	Last                 error         // the last obstacle before the stop; may be nil
}

// Answer is the result of a request that did not acquire the lease. The engine reads the facts in an error before the input,
// since methods of errors are the provider's code.
type Answer struct {
	Err        error
	Held       *abstractions.HeldError
	Throttled  bool
	RetryAfter time.Duration // 0 if the backend did not say
	Refused    bool          // the backend refused the caller; the refusal may be temporary
	Final      bool          // asking again can't help
}

// Head is the first waiter of a queue, and the only one that asks the backend. Its methods are the inputs, and return the next
// step.
type Head struct {
	rules        *Rules
	askedAt      time.Time // when the last request ended; zero before the first
	last         Answer    // the obstacle that the backend last named
	lateAnswers  int       // answers in a row after the lease should have run out
	backoff      int       // each step doubles the pause
	token        int64     // of the holder, as the backend last answered
	failures     int       // requests in a row that the backend did not answer
	subscribed   bool      // wake-ups may come
	wakeupsEnded bool      // the provider has ended its wake-ups: from then on the head polls
	limitPassed  bool      // the wait limit has passed
}

// Subscribed notes that a registration for wake-ups was made, or failed. A release just before the registration sent no wake-up.
func (h *Head) Subscribed(isNew bool, random float64) Step {
	if h.subscribed = isNew; isNew || h.askedAt.IsZero() {
		return Step{Ask: true}
	}
	return h.pause(random)
}

// Answered notes that a request has ended without the lease. refused is the result of Queue.Answered. random is in [0, 1).
func (h *Head) Answered(now time.Time, a *Answer, refused bool, random float64) (s Step) {
	switch {
	case a.Final:
		return Step{Stop: true, End: a.Err}
	case refused:
		return Step{Stop: true, End: fmt.Errorf("%w; the backend has given no other answer for %v", a.Err, h.rules.RefusalTimeout)}
	}
	h.askedAt, h.last = now, *a
	h.failures++
	if a.Held != nil {
		h.failures = 0
		// Without wake-ups the head asks more often while the name changes hands: a few times for each lease, because the name is free
		// only for short moments (see yieldState).
		if h.token != 0 && h.token != a.Held.Holder.Token && !h.subscribed {
			h.backoff = max(0, h.backoff-3)
		}
		h.token = a.Held.Holder.Token
	}
	switch {
	case h.limitPassed:
		s = Step{Stop: true, Last: a.Err}
	case a.Held != nil && h.rules.Wakeups && !h.subscribed && !h.wakeupsEnded:
		s = Step{Subscribe: true}
	default:
		s = h.pause(random)
	}
	s.Failed = h.failures
	return s
}

// pause returns a jittered, doubling back-off, or the rest of the holder's time if that is shorter. With wake-ups the back-off
// begins at MaxPoll, the limit without wake-ups.
func (h *Head) pause(random float64) Step {
	held := h.last.Held
	first, limit := h.rules.MinPoll, h.rules.MaxPoll
	if h.subscribed && held != nil { // no wake-up comes at the end of an outage
		first, limit = limit, h.rules.maxPushedPause()
	}
	pause := limit
	if n := min(h.backoff, 16); first < limit>>n {
		pause = first << n
	}
	h.backoff++
	pause -= time.Duration(random * float64(pause) / 2)
	switch {
	case h.last.Throttled:
		return Step{Pause: max(pause, min(h.last.RetryAfter, maxThrottle)), IgnoreWakeups: true}
	case held == nil:
		return Step{Pause: pause}
	case held.RetryAfter > 0:
		pause = min(pause, held.RetryAfter)
	}
	if left, known := held.Holder.Remaining(); known && held.Holder.Held {
		if left > 0 {
			h.lateAnswers = 0
		}
		// The head asks a millisecond or two after the holder's time is up, so that waiters of many processes don't ask at the same
		// moment. That delay doubles while the backend still shows the lease.
		delay := time.Duration((1+random)*float64(time.Millisecond)) << min(h.lateAnswers, 8)
		pause = min(pause, trust.AddSaturated(left, delay))
		h.lateAnswers++
	}
	return Step{Pause: pause}
}

// Woken notes that a pause is over. Its time has passed, a wake-up has come, a lease of this process has ended, or the
// wake-ups have ended.
func (h *Head) Woken(wakeupsEnded bool) Step {
	h.subscribed, h.wakeupsEnded = h.subscribed && !wakeupsEnded, h.wakeupsEnded || wakeupsEnded
	return Step{Ask: true}
}

// LimitPassed notes that the wait limit has passed in a pause. The name may be free by now, unless the last answer is fresh.
func (h *Head) LimitPassed(now time.Time) Step {
	if h.last.Throttled || now.Sub(h.askedAt) < h.rules.MinPoll {
		return Step{Stop: true, Last: h.last.Err}
	}
	h.limitPassed = true
	return Step{Ask: true}
}

// Stopped notes that the wait has ended during a request. a has no Err if the request was cut off.
func (h *Head) Stopped(end error, a *Answer) Step {
	if a.Held != nil {
		h.last = *a
	}
	return Step{Stop: true, End: end, Last: h.last.Err}
}

// WaitError returns the error of a wait that has ended without the lease: why it ended, and the last obstacle, which may be nil.
// An obstacle replaces ErrLimit.
func WaitError(end, last error) error {
	switch {
	case end == nil, last != nil && errors.Is(end, ErrLimit):
		return last
	case last == nil, errors.Is(last, end):
		return end
	}
	return fmt.Errorf("%w; the last answer was: %w", end, last)
}
