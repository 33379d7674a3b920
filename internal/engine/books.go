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
	l.before = m.byName[l.name]
	m.byName[l.name] = l
	return l.before != nil, nil
}

// has reports whether the function is returns true for a lease of the name. Caller holds mu.
func (m *Manager) has(name string, is func(*lease) bool) bool {
	for l := m.byName[name]; l != nil; l = l.before {
		if is(l) {
			return true
		}
	}
	return false
}

// holds reports whether the claim in a record belongs to a lease or a clean-up of the manager. Caller holds mu.
func (m *Manager) holds(r *abstractions.Record) bool {
	return m.has(r.Name, func(l *lease) bool { return abstractions.FingerprintOf(l.id) == r.Fingerprint }) ||
		slices.ContainsFunc(m.cleanUpsOf(r.Name), func(c *cleanup) bool { return abstractions.FingerprintOf(c.req.ID) == r.Fingerprint })
}

// granted ends each lease of the name whose token is lower than the token of another claim. A higher token of the lease's
// own claim proves no loss: a server of Redlock may show the claim with a higher token than the majority has granted.
func (m *Manager) granted(name string, token int64, claim abstractions.Fingerprint) {
	m.end(name, func(l *lease) *abstractions.LostError {
		if l.token >= token || abstractions.FingerprintOf(l.id) == claim {
			return nil
		}
		return &abstractions.LostError{Reason: abstractions.LostTaken, Err: fmt.Errorf("the backend has shown token %d of the name, after %d of this lease", token, l.token)}
	})
}

// shown takes the record of a name from an answer of the backend.
func (m *Manager) shown(name string, r *abstractions.Record) {
	if !r.Unconfirmed {
		m.granted(name, r.Token, r.Fingerprint)
	}
}

// end ends the leases of a name for which why returns a loss.
func (m *Manager) end(name string, why func(*lease) *abstractions.LostError) {
	var leases []*lease
	m.mu.Lock()
	for l := m.byName[name]; l != nil; l = l.before {
		leases = append(leases, l)
	}
	m.mu.Unlock()
	for _, l := range leases {
		lost := why(l)
		if lost == nil {
			continue
		}
		now := m.clock.Now()
		l.mu.Lock()
		next := l.apply(now, l.life.Lose(lost))
		l.mu.Unlock()
		next.take()
	}
}

func (m *Manager) unregister(l *lease) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if latest := m.byName[l.name]; latest != l {
		for latest.before != l {
			latest = latest.before
		}
		latest.before = l.before
	} else if l.before != nil {
		m.byName[l.name] = l.before
	} else {
		delete(m.byName, l.name)
	}
	l.before = nil
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
