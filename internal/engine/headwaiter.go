package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/panics"
	"github.com/distributedleasing/leasing/internal/trust"
)

// waitGrace bounds the rest of a request that is under way when the wait limit
// passes.
const waitGrace = time.Second

// pushedPolls is the multiple of MaxPoll that bounds the pause between two requests
// where the backend pushes wake-ups.
const pushedPolls = 10

// maxThrottle bounds the pause that a backend may ask for.
const maxThrottle = time.Minute

// errWaitLimit is the cause of a context that ends waitGrace after the limit.
var errWaitLimit = fmt.Errorf("%w: no answer within the wait limit", abstractions.ErrUnavailable)

// headWaiter is the first in the queue of a name, which alone asks the backend.
type headWaiter struct {
	m     *Manager
	l     *lease
	q     *queue
	t     *ticket
	limit <-chan time.Time // receives when the wait limit has passed

	asked    time.Time // when the last request ended; zero before the first
	last     error     // the obstacle that the backend last named
	late     int       // answers in a row after the lease should have run out
	pace     int       // of the back-off: each step doubles the pause
	token    int64     // of the holder, as the backend last answered
	failures int       // requests in a row that the backend did not answer
	// pushless is set when the provider has ended its hints: from then on the head polls.
	pushless bool
	hints    <-chan struct{} // of the provider's Waiter; nil while there are none
	// unsubscribe ends the registration behind hints.
	unsubscribe context.CancelFunc
}

// run asks until the name is ours, the wait ends, or asking can't help.
func (h *headWaiter) run(ctx context.Context) error {
	m := h.m
	defer func() {
		if h.unsubscribe != nil {
			h.unsubscribe()
		}
	}()
	pause := m.queues.firstPause(h.q, h.t)
	if pause == 0 {
		if m.queues.contended(h.l.name) {
			h.subscribe(ctx) // now, which saves the request that must follow a later subscription
		}
		// Most acquires end here, so the preparations for waiting come later.
		if done, err := h.ask(ctx); done {
			return err
		}
	} else {
		h.last = m.queues.localHolder(h.q)
	}
	m.queues.noteWaiting(h.l, h.t)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(m.accepting, func() { cancel(abstractions.ErrClosed) })()
	freed := m.queues.listen(h.t)
	for {
		if pause == 0 {
			if errors.Is(h.last, abstractions.ErrHeld) && h.subscribe(ctx) { // a release just before the registration made no wake-up
				if done, err := h.ask(ctx); done {
					return err
				}
			}
			pause = h.pause()
		}
		hints, freed := h.hints, freed
		if errors.Is(h.last, abstractions.ErrThrottled) { // the pause of a throttled backend is not cut short
			hints, freed = nil, nil
		}
		select {
		case <-time.After(pause):
		case _, ok := <-hints:
			if !ok {
				h.hints, h.pushless = nil, true
			}
		case <-freed:
		case <-ctx.Done():
		case <-h.limit:
			if time.Since(h.asked) >= m.config.MinPoll && !errors.Is(h.last, abstractions.ErrThrottled) { // the name may be free by now
				if done, err := h.ask(ctx); done {
					return err
				}
			}
			return m.ownHolder(h.last)
		}
		pause = 0
		if done, err := h.ask(ctx); done {
			return err
		}
	}
}

// ask makes one request. Unless done is true the wait goes on.
func (h *headWaiter) ask(ctx context.Context) (done bool, err error) {
	err = h.m.ask(ctx, h.l)
	h.asked = time.Now()
	switch {
	case err == nil:
		return true, nil
	case ctx.Err() != nil:
		if held := (*abstractions.HeldError)(nil); !dispatch.CutOff(ctx, err) && errors.As(err, &held) { // an answer all the same
			h.last = err
		}
		if end := context.Cause(ctx); !errors.Is(end, errWaitLimit) || h.last == nil {
			return true, gaveUp(end, h.m.ownHolder(h.last))
		}
		return true, h.m.ownHolder(h.last)
	case permanent(err), errors.Is(err, panics.Err):
		return true, err
	}
	if h.last = err; h.m.queues.refused(h.q, err) {
		return true, fmt.Errorf("%w; the backend has given no other answer for %v", err, h.m.config.RefusalTimeout)
	}
	if held := (*abstractions.HeldError)(nil); errors.As(err, &held) {
		h.m.queues.noteOtherHolder(h.q, held.Holder.Fingerprint)
		h.observe(held.Holder.Token)
		h.failures = 0
		return false, nil
	}
	h.failed(err)
	return false, nil
}

// gaveUp returns the error of a wait that ended without the lease: the cause of
// the end, and the last answer.
func gaveUp(end, last error) error {
	if last == nil || errors.Is(last, end) {
		return end
	}
	return fmt.Errorf("%w; the last answer was: %w", end, last)
}

// failed reports an attempt that the backend did not answer. Without the report a start
// against a backend that is down would wait in silence.
func (h *headWaiter) failed(err error) {
	h.failures++
	h.m.telemetry.AttemptFailed(h.l.scope, err)
	h.m.observers.Publish(nil, h.l.id, &abstractions.Event{
		Kind: abstractions.EventAcquireFailed, Time: time.Now(), Coalesced: 1, Name: h.l.name, Owner: h.m.config.Owner,
		TTL: h.l.settings.TTL, Attempt: h.failures, WillRetry: true, Err: err,
	})
}

// subscribe asks the provider for hints. It reports whether a registration is
// new. Without one, or when it fails, the head polls.
func (h *headWaiter) subscribe(ctx context.Context) bool {
	if h.m.waiter == nil || h.hints != nil || h.pushless {
		return false
	}
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(min(h.m.config.RequestTimeout, h.m.config.MaxPoll), cancel)
	req := abstractions.WaitRequest{Name: h.l.name, ID: h.l.id, Owner: h.m.config.Owner}
	wakeups, err := dispatch.Send(ctx, h.m.requests, &h.l.acquires, h.m.waiter, abstractions.Waiter.Wait, req, nil)
	if err != nil && ctx.Err() == nil {
		h.m.wakeUpsFail(err)
	}
	if !timer.Stop() || err != nil {
		cancel()
		return false
	}
	h.m.unhinted.Store(false)
	h.hints, h.unsubscribe = wakeups.C, cancel
	return true
}

// wakeUpsFail logs that nothing wakes this process' waiters, once until a subscription succeeds.
func (m *Manager) wakeUpsFail(err error) {
	if !m.unhinted.Swap(true) {
		m.log(slog.LevelWarn, "leasing: waiters are not woken, and ask from time to time", "error", err)
	}
}

// observe sets the pace after the answer that the name is held. Without
// wake-ups the head asks more often while the name changes hands, a few times
// for each lease: the moments in which the name is free are short (see streak).
func (h *headWaiter) observe(token int64) {
	if token != h.token && h.token != 0 && h.hints == nil {
		h.pace = max(0, h.pace-3)
	}
	h.token = token
}

// pause returns the longest wait for a wake-up: a jittered, doubling back-off, or the rest of
// the holder's time if that is shorter. With wake-ups the back-off begins at MaxPoll, the
// limit without wake-ups.
func (h *headWaiter) pause() time.Duration {
	first, limit := h.m.config.MinPoll, h.m.config.MaxPoll
	if h.hints != nil && errors.Is(h.last, abstractions.ErrHeld) { // nothing hints at the end of an outage
		first, limit = limit, min(limit, trust.Forever/pushedPolls)*pushedPolls
	}
	pause := limit
	if n := min(h.pace, 16); first < limit>>n {
		pause = first << n
	}
	h.pace++
	pause -= time.Duration(h.m.random() * float64(pause) / 2)
	if throttled := (*abstractions.ThrottledError)(nil); errors.As(h.last, &throttled) {
		return max(pause, min(throttled.RetryAfter, maxThrottle))
	}
	held := (*abstractions.HeldError)(nil)
	if !errors.As(h.last, &held) {
		return pause
	}
	if held.RetryAfter > 0 {
		pause = min(pause, held.RetryAfter)
	}
	if left, known := held.Holder.Remaining(); known && held.Holder.Held {
		if left > 0 {
			h.late = 0
		}
		// A millisecond or two after the holder's time is up, so that waiters of many
		// processes don't meet, and doubling while the backend still shows the lease.
		after := time.Duration((1+h.m.random())*float64(time.Millisecond)) << min(h.late, 8)
		pause = min(pause, trust.AddSaturated(left, after))
		h.late++
	}
	return pause
}
