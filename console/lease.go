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

// historyPage is how many entries of a name's history a page shows.
const historyPage = 50

// leasePage is what the templates show of one name.
type leasePage struct {
	page
	Name       string
	Lease      lease // its Record is nil while nothing is known
	Waiters    []leasing.Waiting
	Queue      bool // the backend tells who waits
	HasHistory bool
	History    []abstractions.HistoryEntry // newest first
	Before     string                      // where the page begins; "" at the newest entry
	Older      string                      // where the next page begins; "" after the oldest
	AllowBreak bool
}

// look reads what is known of a name. Where the backend does not answer, it returns what
// was known the last time.
func (c *Console) look(ctx context.Context, user, name, before string, last *leasePage) *leasePage {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p := &leasePage{page: c.page(user, name), Name: name, AllowBreak: c.options.AllowBreak, HasHistory: c.history != nil, Before: before}
	p.Live = true
	asked := time.Now()
	record, err := c.manager.Inspect(ctx, name)
	if err != nil {
		if last != nil {
			*p = *last
		}
		p.Error = err
		return p
	}
	p.AsOf, p.Lease = asked, lease{&record, asked}
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
		render(w, http.StatusOK, "lease.html", c.look(r.Context(), userOf(r), name, r.FormValue("before"), nil))
	}
}

func (c *Console) streamLease(w http.ResponseWriter, r *http.Request) {
	name, ok := c.nameOf(w, r)
	if !ok {
		return
	}
	before := r.FormValue("before")
	c.streamShared(w, r, partKey{template: "lease-live", what: strconv.Quote(name) + before}, func(ctx context.Context, last any) any {
		lastPage, _ := last.(*leasePage)
		return c.look(ctx, "", name, before, lastPage)
	})
}
