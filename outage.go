package leasing

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// recently is for how long Health shows that leases were lost, or that a request
// failed, when nothing has happened since.
const recently = time.Minute

// outage is what Health knows of failures, by the manager's monotonic clock. Its
// fields are counted from 1 ns, so that 0 means never.
type outage struct {
	since    atomic.Int64 // the first request that failed since one was answered
	failed   atomic.Int64 // the last one that failed
	lostLast atomic.Int64 // the last loss of a lease
}

// note takes the outcome of a request. ctx is its caller's, whose end says nothing
// about the backend.
func (o *outage) note(ctx context.Context, now time.Duration, err error) {
	switch {
	case err == nil, abstractions.NotApplied(err) && !errors.Is(err, ErrUnavailable):
		if o.since.Load() != 0 {
			o.since.Store(0)
		}
	case ctx.Err() == nil:
		o.failed.Store(int64(now) + 1)
		o.since.CompareAndSwap(0, int64(now)+1)
	}
}

// lost takes the loss of a lease. One that was to end is no failure.
func (o *outage) lost(now time.Duration, reason LostReason) {
	if reason != LostRenewalLimit {
		o.lostLast.Store(int64(now) + 1)
	}
}

// fill adds to a report what has failed.
func (o *outage) fill(h *Health, c *clock) {
	now := c.mono()
	is := func(at int64) bool { return at != 0 && now-time.Duration(at) < recently }
	if since := o.since.Load(); since != 0 && is(o.failed.Load()) {
		h.FailingSince = c.time(time.Duration(since) - 1)
	}
	if at := o.lostLast.Load(); at != 0 {
		h.LastLost = c.time(time.Duration(at) - 1)
		if is(at) {
			h.Status = Degraded
		}
	}
}
