package leasing

import (
	"context"
	"time"
)

// SetTTL is a renewal that asks for another TTL. It shares everything with Renew.
func (l *lease) SetTTL(ctx context.Context, ttl time.Duration) error {
	version, err := l.wantTTL(ttl)
	if err != nil {
		return l.m.wrap("renew", l.name, l.id, err)
	}
	for attempt := 1; ; attempt++ {
		err := l.Renew(ctx)
		l.mu.Lock()
		granted, carried := l.life.TTLVersions()
		l.mu.Unlock()
		if granted >= version {
			return nil
		}
		if err != nil && (carried >= version || attempt > 1) {
			return err
		}
		// The renewal that Renew joined was sent before the TTL was wanted.
	}
}

// wantTTL has the next renewals ask for ttl, and returns the version of that change.
func (l *lease) wantTTL(ttl time.Duration) (version int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Over() {
		return 0, l.life.Err()
	}
	changed, err := l.m.options.withTTL(l.settings, ttl, l.m.caps)
	if err != nil {
		return 0, err
	}
	l.settings = changed
	return l.life.WantTTL(&changed.Settings), nil
}
