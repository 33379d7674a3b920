package run

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// endOf returns the result for an error from a lease: a hand-over and a Close count as a release.
func endOf(err error) history.Result {
	if errors.Is(err, leasing.ErrHandedOver) || errors.Is(err, leasing.ErrClosed) {
		return history.ResultReleased
	}
	return history.ResultOf(err)
}

// claimOf returns the string that identifies a claim in a journal.
func claimOf(id string) string { return abstractions.FingerprintOf(id).String() }

// by joins the actor and the reason of a break.
func by(actor, reason string) string { return strings.TrimSpace(actor + " " + reason) }

// recordEvent records an observer's events about the start and the end of a lease, and about failed acquires.
func recordEvent(to history.Journal, clock *clock, worker int, e leasing.Event, own bool) {
	switch e.Kind {
	case leasing.EventAcquired, leasing.EventLost, leasing.EventReleased, leasing.EventHandedOver, leasing.EventAcquireFailed:
		to.Enter(history.Observation{Worker: worker, Name: e.Name, Claim: e.Fingerprint.String(), Kind: e.Kind, Reason: e.Reason, By: by(e.BrokenBy, e.BreakReason), At: clock.at(e.Time), Own: own, Times: e.Coalesced})
	}
}

// holdRecorder records a hold while it lasts, from its manager's events and its holder's
// actions.
type holdRecorder struct {
	clock   *clock
	journal history.Journal
	working atomic.Bool // Do's function is running

	failures int // consecutive failed renewals, counted from the observer's events

	mu           sync.Mutex
	hold         history.Hold
	lease        *leasing.Lease // nil before the acquire has returned
	contextEnded time.Duration  // when the lease's context ended; 0 until then
}

// observe is the lease's observer.
func (h *holdRecorder) observe(e leasing.Event) {
	recordEvent(h.journal, h.clock, h.hold.Worker, e, true)
	h.checkFailure(e)
	h.change(func(t *history.Hold) {
		t.Renewals = max(t.Renewals, e.Renewals)
		t.Renewed, t.RenewalFailed = t.Renewed || e.Kind == leasing.EventRenewed, t.RenewalFailed || e.Kind == leasing.EventRenewalFailed
		if e.Kind == leasing.EventLost {
			t.Reason = e.Reason
			t.EndAt(h.clock.at(e.Time))
		}
	})
	h.mu.Lock()
	l := h.lease
	h.mu.Unlock()
	if l != nil {
		l.Remaining() // an observer may call methods of its lease
	}
}

// checkFailure records a violation if the event of a failed renewal has a wrong count or an unspecific error.
func (h *holdRecorder) checkFailure(e leasing.Event) {
	text := ""
	switch e.Kind {
	case leasing.EventRenewed:
		h.failures = 0
	case leasing.EventRenewalFailed:
		if h.failures += e.Coalesced; e.Attempt != h.failures {
			text = fmt.Sprintf("as the %dth", e.Attempt)
		}
		if history.ResultOf(e.Err) == history.ResultUnknown && !errors.Is(e.Err, leasing.ErrUnavailable) {
			text = fmt.Sprintf("with the error %q", e.Err)
		}
	}
	if text != "" {
		h.journal.Enter(history.Violation{Check: history.CheckEvents, Name: e.Name, At: h.clock.at(e.Time), Text: fmt.Sprintf("the observer of worker %d got the event of the %dth failed renewal in a row %s", h.hold.Worker, h.failures, text)})
	}
}

// begin records the return of the acquire.
func (h *holdRecorder) begin(l *leasing.Lease) {
	h.change(func(t *history.Hold) {
		t.From, t.Claim, t.Token = h.clock.now(), claimOf(l.ID()), l.Token()
		h.lease = l
		context.AfterFunc(l.Context(), h.recordContextEnd) // at once, even while the worker waits for an answer
	})
}

func (h *holdRecorder) recordContextEnd() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.contextEnded = h.clock.now()
}

// inUse reports whether the lease's context has not ended, or Do's function is running.
func (h *holdRecorder) inUse() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.lease.Context().Err() == nil || h.working.Load()
}

// end records the time at which the holder stops, and the reason.
func (h *holdRecorder) end(why history.Ending) {
	h.change(func(t *history.Hold) {
		t.Ending = why
		t.EndAt(h.clock.now())
	})
}

// recordLoss records the time at which the holder notices the loss of its lease, or the end of the lease's context if that
// was earlier.
func (h *holdRecorder) recordLoss(at time.Duration) {
	h.change(func(t *history.Hold) {
		if h.contextEnded != 0 {
			at = min(at, h.contextEnded)
		}
		t.Ending, t.Noticed = history.EndingLost, at
		t.EndAt(at)
	})
}

// change applies and records a change. It records nothing before the acquire has returned.
func (h *holdRecorder) change(what func(*history.Hold)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what(&h.hold)
	if h.hold.Claim != "" {
		h.journal.Enter(h.hold)
	}
}
