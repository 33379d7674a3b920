package engine

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// pingName is the name that Health inspects if the provider is not a Pinger.
const pingName = "leasing/health"

func (m *Manager) Health(ctx context.Context) abstractions.Health {
	h := abstractions.Health{
		Status: abstractions.Healthy, Provider: m.caps.Provider, Owner: m.config.Owner, Closed: m.isClosing(),
		Failing: int(m.failing.Load()), Lost: m.outage.losses.Load(),
		ObserverPanics: m.observers.Panics(), StuckObservers: m.observers.Stuck(),
	}
	h.Waiting, h.OldestWaiter = m.queues.waiters()
	m.mu.Lock()
	h.Held = len(m.leases)
	m.mu.Unlock()
	m.outage.fill(&h, m.clock)
	if h.Failing > 0 || h.StuckObservers > 0 || !h.FailingSince.IsZero() {
		h.Status = abstractions.Degraded
	}
	ctx, cancel := context.WithTimeout(orBackground(ctx), m.config.HealthTimeout)
	defer cancel()
	began := time.Now()
	_, err := call(ctx, m, "ping", "", nil, m.provider, func(p abstractions.Provider, ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
		if pinger, ok := abstractions.As[abstractions.Pinger](p); ok {
			return abstractions.Record{}, pinger.Ping(ctx)
		}
		return p.Inspect(ctx, req)
	}, abstractions.InspectRequest{Name: pingName})
	h.Ping = time.Since(began)
	if err != nil {
		h.Status, h.Error = abstractions.Unhealthy, err.Error()
	}
	return h
}

// recentPeriod bounds the age of the latest loss of a lease, or failure of a request, that
// degrades Health.
const recentPeriod = time.Minute

// outage has the failures that Health reports, with times by the manager's monotonic clock. Its times begin at 1 ns, so that 0
// means never.
type outage struct {
	since    atomic.Int64 // the first failed request after the latest answered request
	failed   atomic.Int64 // the latest failed request
	lastLost atomic.Int64 // the latest loss of a lease
	losses   atomic.Int64 // the total number of losses
}

// note records the outcome of a request. An error after the end of the caller's ctx does not count, since it may not
// come from the backend.
func (o *outage) note(ctx context.Context, c *trust.Clock, err error) {
	switch {
	case err == nil, abstractions.NotApplied(err) && !errors.Is(err, abstractions.ErrUnavailable) && !isDenied(err) && !errors.Is(err, abstractions.ErrNotSetUp):
		if o.since.Load() != 0 {
			o.since.Store(0)
		}
	case ctx.Err() == nil:
		now := int64(c.Mono()) + 1
		o.failed.Store(now)
		o.since.CompareAndSwap(0, now)
	}
}

// up returns 0 if the latest request that note counts has failed, and 1 otherwise.
func (o *outage) up() int64 {
	if o.since.Load() != 0 {
		return 0
	}
	return 1
}

// noteLoss counts the loss of a lease. A loss after MaxRenewals renewals does not degrade Health.
func (o *outage) noteLoss(c *trust.Clock, reason abstractions.LostReason) {
	o.losses.Add(1)
	if reason != abstractions.LostRenewalLimit {
		o.lastLost.Store(int64(c.Mono()) + 1)
	}
}

// fill adds the failures to a report.
func (o *outage) fill(h *abstractions.Health, c *trust.Clock) {
	now := c.Mono()
	recent := func(at int64) bool { return at != 0 && now-time.Duration(at) < recentPeriod }
	if since := o.since.Load(); since != 0 && recent(o.failed.Load()) {
		h.FailingSince = c.Time(time.Duration(since) - 1)
	}
	if at := o.lastLost.Load(); at != 0 {
		h.LastLost = c.Time(time.Duration(at) - 1)
		if recent(at) {
			h.Status = abstractions.Degraded
		}
	}
}
