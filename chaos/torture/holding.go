package torture

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// holding enters a hold as it goes on: from its manager's events and from what
// its holder does.
type holding struct {
	clock   *clock
	journal journal

	mu   sync.Mutex
	hold Hold
}

// observe is the lease's observer.
func (h *holding) observe(e leasing.Event) {
	h.change(func(t *Hold) {
		switch e.Kind {
		case leasing.EventAcquired, leasing.EventRenewed:
			t.Until = max(t.Until, h.clock.at(e.Time)+e.Remaining)
			t.Renewals = e.Renewals
		case leasing.EventLost:
			t.Reason, t.Renewals = e.Reason, e.Renewals
			t.endAt(h.clock.at(e.Time))
		}
	})
}

// begin is when the acquire has returned.
func (h *holding) begin(l leasing.Lease) {
	h.change(func(t *Hold) {
		t.From, t.Claim, t.Token = h.clock.now(), l.ID(), l.Token()
		t.Until = max(t.Until, t.From+l.Remaining()) // the event may come later
	})
}

// end is when the holder stops, for the reason given.
func (h *holding) end(why Ending) {
	h.change(func(t *Hold) {
		t.Ending = why
		t.endAt(h.clock.now())
	})
}

// told is when the holder sees that its lease is lost.
func (h *holding) told(at time.Duration) {
	h.change(func(t *Hold) {
		t.Ending, t.Told = EndingLost, at
		t.endAt(at)
	})
}

// endAt ends a hold, unless it has ended before.
func (t *Hold) endAt(at time.Duration) {
	if t.End == 0 || at < t.End {
		t.End = at
	}
}

// change enters a change. A lease that its holder does not know of yet is not entered.
func (h *holding) change(what func(*Hold)) {
	h.mu.Lock()
	defer h.mu.Unlock()
	what(&h.hold)
	if h.hold.Claim != "" {
		h.journal.enter(h.hold)
	}
}
