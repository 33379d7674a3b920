package leasing

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
)

// SetMetadata is a renewal that carries metadata. It shares everything with Renew.
func (l *lease) SetMetadata(ctx context.Context, metadata map[string]string) error {
	if err := abstractions.ValidateMetadata(metadata); err != nil {
		return l.m.wrap("renew", l.name, l.id, err)
	}
	l.mu.Lock()
	version := l.life.WantMetadata(metadata, l.settings.metadata)
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
		// The renewal that Renew joined was sent before the change was wanted.
	}
}
