package leasing

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/distributedleasing/leasing/internal/lifecycle"
)

// A lease and a manager may be printed at any time: each shows a few facts for
// people, and no internal state. Format handles every verb of
// package fmt, which would otherwise read the fields without their locks.

// Format shows name, token and state of a lease, for every verb.
func (l *Lease) Format(s fmt.State, verb rune) {
	if own, ok := l.impl.(fmt.Formatter); ok {
		own.Format(s, verb)
		return
	}
	state := "held"
	if err := l.Err(); err != nil {
		state = err.Error()
	}
	fmt.Fprintf(s, "lease %q, token %d, %s", l.Name(), l.Token(), state)
}

// LogValue returns the text of Format.
func (l *Lease) LogValue() slog.Value {
	if own, ok := l.impl.(slog.LogValuer); ok {
		return own.LogValue()
	}
	return slog.StringValue(fmt.Sprint(l))
}

// Format shows provider and owner of a manager, and the number of leases held, for every verb.
func (m *Manager) Format(s fmt.State, verb rune) {
	if own, ok := m.impl.(fmt.Formatter); ok {
		own.Format(s, verb)
		return
	}
	fmt.Fprintf(s, "manager of %s", m.Capabilities().Provider)
}

// LogValue returns the text of Format.
func (m *Manager) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(m)) }

func (l *lease) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "lease %q, token %d, %s", l.name, l.token, l.status())
}

func (l *lease) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("name", l.name), slog.String("fingerprint", FingerprintOf(l.id).String()), slog.Int64("token", l.token), slog.String("status", l.status()))
}

// status returns the state of the lease in a word or two.
func (l *lease) status() string {
	now := l.m.clock.Now()
	l.mu.Lock()
	phase, outcome, cause, left := l.life.Phase(), l.life.Outcome(), l.life.Cause(), l.life.Remaining(now)
	l.mu.Unlock()
	var lost *LostError
	switch {
	case phase == lifecycle.Ended && errors.As(outcome, &lost):
		return "lost: " + string(lost.Reason)
	case phase == lifecycle.Ended && errors.Is(cause, ErrHandedOver):
		return "handed over"
	case phase == lifecycle.Ended:
		return "released"
	case phase == lifecycle.Releasing:
		return "being released"
	case left <= 0:
		return "lost: " + string(LostExpired)
	case phase == lifecycle.Ending:
		return "held, to be released"
	}
	return "held"
}

func (m *manager) Format(s fmt.State, _ rune) {
	m.mu.Lock()
	held := len(m.leases)
	m.mu.Unlock()
	fmt.Fprintf(s, "manager of %s, owner %q, %d held", m.caps.Provider, m.options.Owner, held)
}
