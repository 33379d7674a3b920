package engine

import (
	"context"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/dispatch"
	"github.com/distributedleasing/leasing/internal/timetable"
)

// HandOver renews the lease until a renewal that was sent after the call began has succeeded and no renewal is under way. Then no
// request from this process can arrive after those from the receiver.
func (l *lease) HandOver(ctx context.Context) (abstractions.Handover, error) {
	began := l.m.clock.Now()
	for {
		now := l.m.clock.Now()
		l.mu.Lock()
		next := l.apply(now, l.life.Expire(now))
		if l.life.Over() {
			l.mu.Unlock()
			next.run()
			return abstractions.Handover{}, l.endedError("hand over")
		}
		ready := l.life.CanHandOver(began)
		if ready && l.overdueRenewals.Count()+int(l.inBatches.Load()) > 0 {
			l.mu.Unlock()
			return abstractions.Handover{}, l.m.wrap("hand over", l.name, l.id, dispatch.ErrOverdue)
		}
		if ready {
			l.apply(now, l.life.HandOver())
		}
		l.mu.Unlock()
		if ready {
			l.m.retire(l)
			return abstractions.Handover{Name: l.name, ID: l.id, Token: l.token}, nil
		}
		if err := l.Renew(ctx); err != nil {
			return abstractions.Handover{}, err
		}
	}
}

// Adopt makes one request. Unlike an acquire, it does not clean up after a failure: the
// claim belongs to another holder until the adoption succeeds.
func (m *Manager) Adopt(ctx context.Context, h abstractions.Handover, o abstractions.AdoptOptions) (abstractions.Lease, error) {
	if err := m.beginAdoption(h); err != nil {
		return nil, m.wrap("adopt", h.Name, h.ID, err)
	}
	options := abstractions.AcquireOptions{
		TTL: o.TTL, RenewFraction: o.RenewFraction, RenewCadence: o.RenewCadence, NoAutoRenew: o.NoAutoRenew,
		MaxRenewals: o.MaxRenewals, Metadata: o.Metadata, Observer: o.Observer,
	}
	defer func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.adopting = slices.DeleteFunc(m.adopting, func(id string) bool { return id == h.ID })
	}()
	return m.obtain(ctx, "leasing.adopt", m.askOnce, &lease{name: h.Name, id: h.ID, token: h.Token, adopted: true}, "AdoptOptions", options)
}

// beginAdoption refuses a claim that the manager holds, cleans up or adopts, before a request might cut the lease short.
func (m *Manager) beginAdoption(h abstractions.Handover) error {
	if err := (abstractions.ReleaseRequest{Name: h.Name, ID: h.ID}).Validate(m.caps); err != nil {
		return err
	}
	if h.Token <= 0 || h.Token > abstractions.MaxToken {
		return &abstractions.InvalidError{Field: "Handover.Token", Value: h.Token, Want: "the lease's fencing token"}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.anyLease(h.Name, func(l *lease) bool { return l.id == h.ID }) || m.hasCleanUp(h.ID) || slices.Contains(m.adopting, h.ID) {
		return &abstractions.InvalidError{Field: "Handover.ID", Value: abstractions.FingerprintOf(h.ID).String(), Want: "a lease that this manager neither holds nor cleans up"}
	}
	m.adopting = append(m.adopting, h.ID)
	return nil
}

// hasCleanUp reports whether a claim has a clean-up, which would take the name from
// the adopter. A lost lease stays registered until its clean-up is in the timetable.
// Caller holds mu.
func (m *Manager) hasCleanUp(id string) bool {
	return slices.ContainsFunc(m.timetable.All(nil), func(item timetable.Item) bool {
		c, ok := item.(*cleanup)
		return ok && c.req.ID == id
	})
}
