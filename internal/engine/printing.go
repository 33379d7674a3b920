package engine

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/lifecycle"
)

func (l *lease) Format(s fmt.State, _ rune) {
	fmt.Fprintf(s, "lease %q, token %d, %s", l.name, l.token, l.status())
}

func (l *lease) LogValue() slog.Value {
	return slog.GroupValue(
		slog.String("name", l.name), slog.String("fingerprint", abstractions.FingerprintOf(l.id).String()), slog.Int64("token", l.token), slog.String("status", l.status()))
}

// status returns the state of the lease in a few words.
func (l *lease) status() string {
	now := l.m.clock.Now()
	l.mu.Lock()
	phase, outcome, cause, left := l.life.Phase(), l.life.Outcome(), l.life.Cause(), l.life.Remaining(now)
	l.mu.Unlock()
	var lost *abstractions.LostError
	switch {
	case phase == lifecycle.Ended && errors.As(outcome, &lost):
		return "lost: " + string(lost.Reason)
	case phase == lifecycle.Ended && errors.Is(cause, abstractions.ErrHandedOver):
		return "handed over"
	case phase == lifecycle.Ended:
		return "released"
	case phase == lifecycle.Releasing:
		return "being released"
	case left <= 0:
		return "lost: " + string(abstractions.LostExpired)
	case phase == lifecycle.Ending:
		return "held, to be released"
	}
	return "held"
}

func (m *Manager) Format(s fmt.State, _ rune) {
	m.mu.Lock()
	held := len(m.leases)
	m.mu.Unlock()
	fmt.Fprintf(s, "manager of %s, owner %q, %d held", m.caps.Provider, m.config.Owner, held)
}
