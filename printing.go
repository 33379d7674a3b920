package leasing

import (
	"fmt"
	"log/slog"
)

// A lease and a manager may be printed at any time: each shows a few facts for
// people, and no internal state. Format handles every verb of
// package fmt, which would otherwise read the fields without their locks.

// Format prints the name, the token and the state of a lease, for every verb.
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

// Format prints the provider and the owner of a manager, and the number of leases held, for every verb.
func (m *Manager) Format(s fmt.State, verb rune) {
	if own, ok := m.impl.(fmt.Formatter); ok {
		own.Format(s, verb)
		return
	}
	fmt.Fprintf(s, "manager of %s", m.Capabilities().Provider)
}

// LogValue returns the text of Format.
func (m *Manager) LogValue() slog.Value { return slog.StringValue(fmt.Sprint(m)) }
