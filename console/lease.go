package console

import (
	"context"
	"errors"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// lease is a record that a page shows some time after the record was read. readAt is by this process's
// clock. Times by the backend's clock are used only as differences.
type lease struct {
	*leasing.Record
	readAt time.Time
}

// The states of a lease on the pages. A low lease has less than a third of its TTL left, so its holder
// is late: the default renewal leaves at least 0.4 of the TTL.
const (
	stateFree        = "free"
	stateHeld        = "held"
	stateLow         = "low"
	stateBreaking    = "breaking"
	stateUnconfirmed = "unconfirmed"
)

// State returns one of the constants above.
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

// Infinite reports whether the lease never runs out.
func (l lease) Infinite() bool { return l.Held && l.TTL == leasing.Infinite && !l.Breaking }

// Known reports whether the time left is known.
func (l lease) Known() bool {
	_, known := l.Remaining()
	return known
}

// Left returns the time left, if known, assuming that the lease has not been renewed since it was read.
func (l lease) Left() time.Duration {
	left, _ := l.Remaining()
	return max(0, left-time.Since(l.readAt))
}

// left is the sort key for the time left. Leases without a known time come last.
func (l lease) left() time.Duration {
	if !l.Known() {
		return math.MaxInt64
	}
	return l.Left()
}

// Percent returns the percentage of the TTL that is left.
func (l lease) Percent() int {
	if l.TTL <= 0 {
		return 0
	}
	return int(min(1, float64(l.Left())/float64(l.TTL)) * 100)
}

// Trust bounds the time for which a holder with the default options trusts the lease: the time left
// minus the margin for clock drift.
func (l lease) Trust() time.Duration {
	return max(0, l.Left()-l.TTL/100-2*time.Millisecond)
}

// HeldFor returns the time for which the lease has been held, or "" if that time is unknown.
func (l lease) HeldFor() string {
	if l.AcquiredAt.IsZero() || l.Now.IsZero() {
		return ""
	}
	return formatDuration(max(0, l.Now.Sub(l.AcquiredAt)+time.Since(l.readAt)))
}

// historyPage is the number of entries of a name's history on a page.
const historyPage = 50

// leasePage is the template data of one name.
type leasePage struct {
	page
	Name       string
	Lease      lease // its Record is nil before the first answer
	Waiters    []leasing.Waiting
	Queue      bool // the backend lists waiters
	HasHistory bool
	History    []abstractions.HistoryEntry // newest first
	Before     string                      // where the page begins; "" means at the newest entry
	Older      string                      // where the next page begins; "" after the oldest
	AllowBreak bool
}

// readLease reads the state of a name. If the backend does not answer, it returns the last known state.
func (c *Console) readLease(ctx context.Context, user, name, before string, last *leasePage) *leasePage {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	p := &leasePage{page: c.page(user, name), Name: name, AllowBreak: c.options.AllowBreak, HasHistory: c.history != nil, Before: before}
	p.Live = true
	began := time.Now()
	record, err := c.manager.Inspect(ctx, name)
	if err != nil {
		if last != nil {
			*p = *last
		}
		p.Error = err
		return p
	}
	p.AsOf, p.Lease = began, lease{&record, began}
	p.Waiters, err = c.manager.Waiters(ctx, name)
	if p.Queue = !errors.Is(err, leasing.ErrUnsupported); p.Queue {
		p.Error = err
	}
	if c.history != nil {
		read, err := c.history.History(ctx, abstractions.HistoryRequest{Name: name, NewestFirst: true, Limit: historyPage, After: p.Before})
		p.History, p.Older, p.Error = read.Entries, read.Next, errors.Join(p.Error, err)
	}
	return p
}

// nameOf returns the name in a request, or answers with an error if the name is invalid or hidden.
func (c *Console) nameOf(w http.ResponseWriter, r *http.Request) (string, bool) {
	name := r.FormValue("name")
	if !c.visible(name) {
		fail(w, http.StatusNotFound, "This name is invalid, or is not shown here.")
		return "", false
	}
	return name, true
}

func (c *Console) serveLease(w http.ResponseWriter, r *http.Request) {
	if name, ok := c.nameOf(w, r); ok {
		render(w, http.StatusOK, "lease.html", c.readLease(r.Context(), userOf(r), name, r.FormValue("before"), nil))
	}
}

func (c *Console) streamLease(w http.ResponseWriter, r *http.Request) {
	name, ok := c.nameOf(w, r)
	if !ok {
		return
	}
	before := r.FormValue("before")
	c.streamShared(w, r, partKey{template: "lease-live", subject: strconv.Quote(name) + before}, func(ctx context.Context, last any) any {
		lastPage, _ := last.(*leasePage)
		return c.readLease(ctx, "", name, before, lastPage)
	})
}
