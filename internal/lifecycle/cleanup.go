package lifecycle

import (
	"time"

	"github.com/distributedleasing/leasing/internal/trust"
)

// CleanUp is a release that has to be repeated until the claim has certainly ended.
type CleanUp struct {
	From  trust.Instant // the time of the first try; the zero instant means now
	Until trust.Instant // the time of the last try
	// ByID says that the release carries only the ID: the request that may still land has another token and state.
	ByID bool
}

// repeats is the number of repetitions of a release whose first try was answered. Each repetition waits for a third of the time
// that is left, except the last, which waits until the end.
const repeats = 4

// Tries are the tries of a clean-up. The input Tried has these effects:
//
//	input                       while the manager works        once Close has begun
//	Tried: answered             again, repeats times           done
//	       denied               again, ever less often         done
//	       no answer            again, ever less often         again until Close gives up
//
// After Until, and after an answer for an infinite claim, the clean-up is done in any case.
type Tries struct {
	CleanUp
	count    int
	answered bool // at least once
}

// Closing is the state of Manager.Close.
type Closing struct {
	Begun    bool
	GiveUpAt trust.Instant // the end of Close's wait for unanswered tries
}

// TryResult is the answer to one try.
type TryResult struct {
	Answered bool // the release has succeeded, or never will
	Denied   bool // the backend has refused the caller; the refusal may be temporary
}

// NextTry is the effect of a try.
type NextTry struct {
	Done        bool
	Pause       time.Duration // until the next try
	FirstAnswer bool          // no earlier try was answered
	Warn        bool          // a warning is due that an infinite claim is still held: after 1, 2, 4, 8, ... tries
}

// Count returns the number of tries after which the clean-up went on.
func (t *Tries) Count() int { return t.count }

// Answered reports whether a try was answered.
func (t *Tries) Answered() bool { return t.answered }

// Deadline returns the end of the tries. This is the end of the claim, or the end of Close's wait while the manager is being
// closed and the backend does not answer.
func (t *Tries) Deadline(closing Closing) trust.Instant {
	if !t.answered && closing.Begun && closing.GiveUpAt.Mono < t.Until.Mono {
		return closing.GiveUpAt
	}
	return t.Until
}

// Tried notes that a try is over. random is at least 0 and under 1.
func (t *Tries) Tried(now trust.Instant, r TryResult, closing Closing, random float64) (next NextTry) {
	left := t.Deadline(closing).Left(now)
	if r.Answered && !t.answered {
		t.answered, next.FirstAnswer = true, true
	}
	if left <= 0 || r.Answered && left == trust.Forever || (r.Answered || r.Denied) && closing.Begun {
		next.Done = true
		return next
	}
	t.count++
	next.Warn = left == trust.Forever && t.count&(t.count-1) == 0
	switch {
	case !r.Answered: // backs off like a renewal, up to a second, or to a minute for an infinite lease
		limit := time.Second
		if left == trust.Forever {
			limit = time.Minute
		}
		next.Pause = min(RetryPause(t.count, left, left, random), limit)
	case t.count >= repeats:
		next.Pause = left
	default:
		next.Pause = left / 3
	}
	return next
}
