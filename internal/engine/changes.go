package engine

import (
	"context"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// SetMetadata calls Renew, and a renewal carries the new metadata.
func (l *lease) SetMetadata(ctx context.Context, metadata map[string]string) error {
	if err := abstractions.ValidateMetadata(metadata); err != nil {
		return l.m.wrap("renew", l.name, l.id, err)
	}
	l.mu.Lock()
	version := l.life.WantMetadata(metadata, l.settings.Metadata)
	l.mu.Unlock()
	for attempt := 1; ; attempt++ {
		err := l.Renew(ctx)
		l.mu.Lock()
		change := l.life.MetadataVersions()
		l.mu.Unlock()
		switch {
		case change.Granted >= version:
			return nil
		case change.Refused >= version:
			return l.m.wrap("renew", l.name, l.id, change.Refusal)
		case err != nil && (change.Sent >= version || attempt > 1):
			return err
		}
		// Renew has joined a renewal that was sent before the metadata changed.
	}
}

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
		// Renew has joined a renewal that was sent before the TTL changed.
	}
}

// wantTTL makes the next renewals ask for ttl, and returns the version of that change.
func (l *lease) wantTTL(ttl time.Duration) (version int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.life.Over() {
		return 0, l.life.Err()
	}
	changed, err := l.m.config.ChangeTTL(l.settings, ttl)
	if err != nil {
		return 0, err
	}
	l.settings = changed
	return l.life.WantTTL(&changed.Settings), nil
}
