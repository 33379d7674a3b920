package torture

import (
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// holding enters a hold as it goes on: from its manager's events and from what
// its holder does.
type holding struct {
	key     string
	clock   *clock
	journal journal
	label   func(id string) string

	mu   sync.Mutex
	hold Hold
	lost time.Duration // when the manager declared it, by its own clock; 0 if it has not
}

// observe is the lease's observer.
func (h *holding) observe(e leasing.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &h.hold
	switch e.Kind {
	case leasing.EventAcquired, leasing.EventRenewed:
		t.Until = max(t.Until, h.clock.at(e.Time)+e.Remaining)
		t.Renewals = e.Renewals
	case leasing.EventLost:
		h.lost, t.Reason, t.Renewals = h.clock.at(e.Time), e.Reason, e.Renewals
		if t.End == 0 || h.lost < t.End {
			t.End = h.lost
		}
	default:
		return
	}
	h.enter()
}

// begin is when the acquire has returned.
func (h *holding) begin(l leasing.Lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.clock.now()
	h.hold.From, h.hold.Claim, h.hold.Token = now, h.label(l.ID()), l.Token()
	h.hold.Until = max(h.hold.Until, now+l.Remaining()) // the event may come later
	h.enter()
}

// end is when the holder stops, for the reason given.
func (h *holding) end(why Ending) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &h.hold
	t.Ending = why
	if now := h.clock.now(); t.End == 0 || now < t.End {
		t.End = now
	}
	h.enter()
}

// told is when the holder sees that its lease is lost.
func (h *holding) told(at time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t := &h.hold
	t.Ending, t.Told = EndingLost, at
	if t.End == 0 {
		t.End = at
	}
	h.enter()
}

// enter needs mu. A lease that its holder doesn't know of yet is not entered.
func (h *holding) enter() {
	if h.hold.Claim != "" {
		t := h.hold
		h.journal.enter(entry{Key: h.key, Hold: &t})
	}
}
