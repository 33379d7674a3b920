package engine

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/panics"
	"github.com/distributedleasing/leasing/internal/waiting"
)

// waiter is an acquire in the queue of a name.
type waiter struct {
	waiting.Head
	m            *Manager
	l            *lease
	q            *queue
	wake         chan struct{}      // buffered: signals its turn and, once it is the head, the end of a lease of this manager
	limit        <-chan time.Time   // receives a value when the wait limit has passed
	since        time.Time          // when it began to wait; zero before
	wakeups      <-chan struct{}    // wake-ups of the provider's Waiter; nil while there are none
	unsubscribe  context.CancelFunc // ends the registration behind wakeups
	overdueWaits dispatch.Overdue   // registrations, which do not count against the requests of the claim
}

// run waits for the waiter's turn, and then asks until it has the name, the wait ends, or a retry can't help.
func (w *waiter) run(ctx context.Context, head bool) error {
	if head {
		return w.lead(ctx, nil)
	}
	w.noteWaiting()
	passed := false
	select {
	case <-w.wake:
	case <-w.limit:
		passed = true
	case <-ctx.Done():
	case <-w.m.accepting.Done():
	}
	last := w.m.queues.localHolder(w.q)
	switch {
	case w.m.isClosing():
		return waiting.WaitError(abstractions.ErrClosed, last)
	case ctx.Err() != nil:
		return waiting.WaitError(context.Cause(ctx), last)
	case passed: // the limit has passed, but Acquire asks at least once
		err := w.m.ask(ctx, w.l)
		switch {
		case err == nil, ctx.Err() == nil:
			return w.m.ownHolder(err)
		case waitingAnswer(err).Held != nil: // the backend has answered although ctx has ended
			last = w.m.ownHolder(err)
		}
		return waiting.WaitError(context.Cause(ctx), last)
	}
	return w.lead(ctx, last)
}

// noteWaiting counts the waiter, from the first call until it leaves.
func (w *waiter) noteWaiting() {
	if w.since.IsZero() {
		w.m.queues.mu.Lock()
		w.since = time.Now()
		w.m.queues.mu.Unlock()
		w.m.telemetry.Waiting(w.l.scope, +1)
	}
}

// lead takes the steps of the head. holder describes the holder if it is a lease of this manager.
func (w *waiter) lead(ctx context.Context, holder error) error {
	defer func() { w.unsubscribe() }()
	var step waiting.Step
	w.m.queues.mu.Lock()
	w.Head, step = w.q.Begin(time.Now(), holder)
	w.m.queues.mu.Unlock()
	if step.Subscribe {
		step = w.subscribe(ctx)
	}
	if step.Ask { // Most acquires end here, so the preparations for waiting come later.
		step = w.ask(ctx)
	}
	if !step.Stop {
		w.noteWaiting()
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		defer cancel(nil)
		defer context.AfterFunc(w.m.accepting, func() { cancel(abstractions.ErrClosed) })()
	}
	for !step.Stop {
		switch {
		case step.Ask:
			step = w.ask(ctx)
		case step.Subscribe:
			step = w.subscribe(ctx)
		default:
			step = w.pause(ctx, step)
		}
	}
	return waiting.WaitError(step.End, w.m.ownHolder(step.Last))
}

// pause waits for a wake-up, for a bounded time.
func (w *waiter) pause(ctx context.Context, step waiting.Step) waiting.Step {
	wakeups, wake := w.wakeups, w.wake
	if step.IgnoreWakeups {
		wakeups, wake = nil, nil
	}
	select {
	case <-time.After(step.Pause):
	case _, ok := <-wakeups:
		if !ok {
			w.wakeups = nil
			return w.Woken(true)
		}
	case <-wake:
	case <-ctx.Done(): // the next call of ask then sends nothing
	case <-w.limit:
		return w.LimitPassed(time.Now())
	}
	return w.Woken(false)
}

// ask makes one request.
func (w *waiter) ask(ctx context.Context) (step waiting.Step) {
	err := w.m.ask(ctx, w.l)
	if err == nil {
		return waiting.Step{Stop: true}
	}
	a, now := waitingAnswer(err), time.Now()
	if ctx.Err() != nil {
		if dispatch.CutOff(ctx, err) {
			a = waiting.Answer{}
		}
		return w.Stopped(context.Cause(ctx), &a)
	}
	w.m.queues.mu.Lock()
	refused := w.q.Answered(now, &a)
	w.m.queues.mu.Unlock()
	if step = w.Answered(now, &a, refused, w.m.random()); step.Failed > 0 {
		w.reportFailure(err, step.Failed)
	}
	return step
}

// waitingAnswer finds the facts in the error of a request.
func waitingAnswer(err error) waiting.Answer {
	a := waiting.Answer{Err: err, Throttled: errors.Is(err, abstractions.ErrThrottled), Refused: isDenied(err), Final: isPermanent(err) || errors.Is(err, panics.Err)}
	if !errors.As(err, &a.Held) && errors.Is(err, abstractions.ErrHeld) {
		a.Held = &abstractions.HeldError{} // the provider does not describe the holder
	}
	if throttled := (*abstractions.ThrottledError)(nil); errors.As(err, &throttled) {
		a.RetryAfter = throttled.RetryAfter
	}
	return a
}

// reportFailure reports the nth attempt in a row without an answer, so that an application that starts while the backend is down
// does not wait in silence.
func (w *waiter) reportFailure(err error, n int) {
	w.m.telemetry.AttemptFailed(w.l.scope, err)
	w.m.observers.Publish(nil, w.l.id, &abstractions.Event{
		Kind: abstractions.EventAcquireFailed, Time: time.Now(), Coalesced: 1, Name: w.l.name, Owner: w.m.config.Owner,
		TTL: w.l.settings.TTL, Attempt: n, WillRetry: true, Err: err,
	})
}

// subscribe asks the provider for wake-ups. Without wake-ups the head polls.
func (w *waiter) subscribe(ctx context.Context) waiting.Step {
	ctx, cancel := context.WithCancel(ctx)
	timer := time.AfterFunc(min(w.m.config.RequestTimeout, w.m.config.MaxPoll), cancel)
	req := abstractions.WaitRequest{Name: w.l.name, ID: w.l.id, Owner: w.m.config.Owner}
	wakeups, err := dispatch.Send(ctx, w.m.requests, &w.overdueWaits, w.m.waiter, abstractions.Waiter.Wait, req, nil)
	if err != nil && ctx.Err() == nil && !w.m.wakeupsFailed.Swap(true) { // logged once until a subscription succeeds
		w.m.log(slog.LevelWarn, "leasing: waiters are not woken, and ask from time to time", "error", err)
	}
	if !timer.Stop() || err != nil || wakeups.C == nil { // without a channel the head would wait for wake-ups that never come
		cancel()
		return w.Subscribed(false, w.m.random())
	}
	w.m.wakeupsFailed.Store(false)
	w.wakeups, w.unsubscribe = wakeups.C, cancel
	return w.Subscribed(true, 0)
}

// signal wakes the current or the next receiver of c. It never blocks.
func signal(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
