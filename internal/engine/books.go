package engine

import (
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

// register adds a new lease to the manager, unless Close has begun. It reports whether the manager has an
// older lease of the name.
func (m *Manager) register(l *lease) (older bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.isClosing() {
		return false, abstractions.ErrClosed
	}
	m.leases = append(m.leases, l)
	l.slot = int32(len(m.leases) - 1)
	l.older = m.byName[l.name]
	m.byName[l.name] = l
	return l.older != nil, nil
}

// anyLease reports whether match returns true for a lease of the name. Caller holds mu.
func (m *Manager) anyLease(name string, match func(*lease) bool) bool {
	for l := m.byName[name]; l != nil; l = l.older {
		if match(l) {
			return true
		}
	}
	return false
}

// isOwnClaim reports whether the claim in a record belongs to a lease or a clean-up of the manager. Caller holds mu.
func (m *Manager) isOwnClaim(r *abstractions.Record) bool {
	return m.anyLease(r.Name, func(l *lease) bool { return abstractions.FingerprintOf(l.id) == r.Fingerprint }) ||
		slices.ContainsFunc(m.cleanUpsOf(r.Name), func(c *cleanup) bool { return abstractions.FingerprintOf(c.req.ID) == r.Fingerprint })
}

// endOlder ends each lease of the name whose token is lower than the token of another claim. A higher token of the lease's
// own claim does not prove a loss: a Redlock server may show the claim with a higher token than the majority has granted.
func (m *Manager) endOlder(name string, token int64, claim abstractions.Fingerprint) {
	m.endLeases(name, func(l *lease) *abstractions.LostError {
		if l.token >= token || abstractions.FingerprintOf(l.id) == claim {
			return nil
		}
		return &abstractions.LostError{Reason: abstractions.LostTaken, Err: fmt.Errorf("the backend has shown token %d of the name, after %d of this lease", token, l.token)}
	})
}

// noteRecord ends the leases of a name if a record from the backend shows that they are lost.
func (m *Manager) noteRecord(name string, r *abstractions.Record) {
	if !r.Unconfirmed {
		m.endOlder(name, r.Token, r.Fingerprint)
	}
}

// endLeases ends the leases of a name for which loss returns an error.
func (m *Manager) endLeases(name string, loss func(*lease) *abstractions.LostError) {
	var leases []*lease
	m.mu.Lock()
	for l := m.byName[name]; l != nil; l = l.older {
		leases = append(leases, l)
	}
	m.mu.Unlock()
	for _, l := range leases {
		lost := loss(l)
		if lost == nil {
			continue
		}
		now := m.clock.Now()
		l.mu.Lock()
		next := l.apply(now, l.life.Lose(lost))
		l.mu.Unlock()
		next.run()
	}
}

func (m *Manager) unregister(l *lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if latest := m.byName[l.name]; latest != l {
		for latest.older != l {
			latest = latest.older
		}
		latest.older = l.older
	} else if l.older != nil {
		m.byName[l.name] = l.older
	} else {
		delete(m.byName, l.name)
	}
	l.older = nil
	last := m.leases[len(m.leases)-1]
	m.leases[l.slot], last.slot = last, l.slot
	m.leases[len(m.leases)-1] = nil
	m.leases = m.leases[:len(m.leases)-1]
	m.checkIdle()
}

// checkIdle wakes Close when no call, clean-up or lease is left. Caller holds mu.
func (m *Manager) checkIdle() {
	if m.idle != nil && m.calls.Load() == 0 && m.cleanups == 0 && len(m.leases) == 0 {
		close(m.idle)
		m.idle = nil
	}
}
