package console

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// lease is a record as the pages show it, some time after it was read. That time is by
// this process's clock, all others are differences of the backend's.
type lease struct {
	*leasing.Record
	read time.Time
}

// What the pages say of a lease, in a word. Low is one whose holder is late: one that
// renews as the defaults say always has 0.4 of the TTL left.
const (
	stateFree        = "free"
	stateHeld        = "held"
	stateLow         = "low"
	stateBreaking    = "breaking"
	stateUnconfirmed = "unconfirmed"
)

// State is one of the constants above.
func (l lease) State() string {
	switch {
	case !l.Held:
		return stateFree
	case l.Unconfirmed:
		return stateUnconfirmed
	case l.Breaking:
		return stateBreaking
	case l.Known() && l.Left() < l.TTL/3:
		return stateLow
	}
	return stateHeld
}

// Infinite reports whether the lease never runs out by itself.
func (l lease) Infinite() bool { return l.Held && l.TTL == leasing.Infinite && !l.Breaking }

// Known reports whether the time left is known.
func (l lease) Known() bool {
	_, known := l.Remaining()
	return known
}

// Left is the time left, if it is known, when nothing has renewed the lease since.
func (l lease) Left() time.Duration {
	left, _ := l.Remaining()
	return max(0, left-time.Since(l.read))
}

// left orders leases by the time left; those of which it is not known come last.
func (l lease) left() time.Duration {
	if !l.Known() {
		return math.MaxInt64
	}
	return l.Left()
}

// Percent is the share of the TTL that is left.
func (l lease) Percent() int {
	if l.TTL <= 0 {
		return 0
	}
	return int(min(1, float64(l.Left())/float64(l.TTL)) * 100)
}

// Trust is for how long a holder with the default options trusts the lease at most:
// less than the time left by the margin for clocks that drift.
func (l lease) Trust() time.Duration {
	return max(0, l.Left()-l.TTL/100-2*time.Millisecond)
}

// HeldFor is how long the lease has been held; "" if it is not known.
func (l lease) HeldFor() string {
	if l.AcquiredAt.IsZero() || l.Now.IsZero() {
		return ""
	}
	return duration(max(0, l.Now.Sub(l.AcquiredAt)+time.Since(l.read)))
}

// historyShown is how many entries of a name's history a page shows, out of the first
// historyRead that the backend has.
const (
	historyShown = 50
	historyRead  = 10_000
)

// leasePage is what the templates show of one name.
type leasePage struct {
	page
	Name       string
	Lease      lease // its Record is nil while nothing is known
	Waiters    []waiter
	Queue      bool // the backend tells who waits
	History    []abstractions.HistoryEntry
	HasHistory bool
	Cut        bool // there are newer entries
	AllowBreak bool
}

// waiter is a claim that waits for a name.
type waiter struct {
	ID, Owner string
	Waited    time.Duration
}

// look reads what is known of a name. What was read of its history before is used
// again while the lease is the same.
func (c *Console) look(r *http.Request, name string, before *leasePage) *leasePage {
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	p := &leasePage{page: c.page(r, name), Name: name, AllowBreak: c.options.AllowBreak, HasHistory: c.history != nil}
	p.Live = true
	asked := time.Now()
	record, err := c.manager.Inspect(ctx, name)
	if err != nil {
		if before != nil {
			p = before
		}
		p.Error = err
		return p
	}
	p.AsOf, p.Lease = asked, lease{&record, asked}
	p.Waiters, p.Queue, p.Error = waitersOf(ctx, c.manager, name)
	if c.history == nil {
		return p
	}
	if before != nil && before.Error == nil && !changed(before.Lease.Record, &record) {
		p.History, p.Cut = before.History, before.Cut
		return p
	}
	var historyErr error
	p.History, p.Cut, historyErr = c.readHistory(ctx, name)
	p.Error = errors.Join(p.Error, historyErr)
	return p
}

// changed reports whether a name has more history than before.
func changed(before, now *leasing.Record) bool {
	return before.Token != now.Token || before.Held != now.Held || before.Breaking != now.Breaking || before.ID != now.ID
}

// readHistory returns the latest entries, newest first.
func (c *Console) readHistory(ctx context.Context, name string) (entries []abstractions.HistoryEntry, cut bool, err error) {
	req := abstractions.HistoryRequest{Name: name, Limit: 1000}
	for read := 0; read < historyRead; read += req.Limit {
		page, err := c.history.History(ctx, req)
		if err != nil {
			return nil, false, err
		}
		entries = append(entries, page.Entries...)
		entries = slices.Clone(entries[max(0, len(entries)-historyShown):])
		if req.After = page.Next; req.After == "" {
			break
		}
	}
	slices.Reverse(entries)
	return entries, req.After != "", nil
}

// nameOf returns the name that a request is about, or answers that there is none.
func (c *Console) nameOf(w http.ResponseWriter, r *http.Request) (string, bool) {
	name := r.FormValue("name")
	if !c.visible(name) {
		fail(w, http.StatusNotFound, "No lease can have this name, or it is not shown here.")
		return "", false
	}
	return name, true
}

func (c *Console) serveLease(w http.ResponseWriter, r *http.Request) {
	if name, ok := c.nameOf(w, r); ok {
		render(w, http.StatusOK, "lease.html", c.look(r, name, nil))
	}
}

func (c *Console) streamLease(w http.ResponseWriter, r *http.Request) {
	name, ok := c.nameOf(w, r)
	if !ok {
		return
	}
	var before *leasePage
	c.stream(w, r, "lease-live", func(context.Context) (any, time.Time) {
		before = c.look(r, name, before)
		return before, time.Now().Add(c.options.Refresh)
	})
}
