package leasing

import (
	"context"
	"maps"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// metadataChange has the metadata that SetMetadata wants renewals to carry. A lease whose
// metadata never changes has no metadataChange. The lease's mu guards the fields.
//
// A request that carried a change and was not answered may have been applied, or
// may yet be applied. So a change stays wanted until a renewal with it has succeeded or was
// refused, and every renewal carries the confirmed metadata until no unanswered
// request is left that could undo the change.
type metadataChange struct {
	confirmed map[string]string // by the backend; is replaced, never changed

	wanted  map[string]string // nil if there is nothing to change
	version int               // of wanted: counts the calls of SetMetadata

	carried   map[string]string // by the renewal under way; nil if it carries none
	carriedAs int               // its version
	sent      int               // the latest version that a renewal carried
	granted   int               // the latest version that the backend confirmed
	refused   int               // the latest version that the backend refused; refusal is the error
	refusal   error
	doubt     trust.Instant // until when an unanswered request may land; zero for no such request
}

// SetMetadata is a renewal that carries metadata. It shares everything with Renew.
func (l *lease) SetMetadata(ctx context.Context, metadata map[string]string) error {
	if err := abstractions.ValidateMetadata(metadata); err != nil {
		return l.m.wrap("renew", l.name, l.id, err)
	}
	version := l.wantMetadata(metadata)
	for attempt := 1; ; attempt++ {
		err := l.Renew(ctx)
		l.mu.Lock()
		change := *l.change
		l.mu.Unlock()
		switch {
		case change.granted >= version:
			return nil
		case change.refused >= version:
			return l.m.wrap("renew", l.name, l.id, change.refusal)
		case err != nil && (change.sent >= version || attempt > 1):
			return err
		}
		// The renewal that Renew joined was sent before the change was wanted.
	}
}

// wantMetadata makes the next renewals carry metadata, and returns its version.
func (l *lease) wantMetadata(metadata map[string]string) (version int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.change == nil {
		l.change = &metadataChange{confirmed: l.settings.metadata}
	}
	l.change.version++
	l.change.wanted = maps.Clone(metadata)
	if metadata == nil {
		l.change.wanted = map[string]string{}
	}
	return l.change.version
}

// confirmedMetadata returns the metadata that the backend confirmed last. Caller holds mu.
func (l *lease) confirmedMetadata() map[string]string {
	if l.change != nil {
		return l.change.confirmed
	}
	return l.settings.metadata
}

// carry returns the metadata that the next renewal carries. Caller holds mu.
func (c *metadataChange) carry() map[string]string {
	c.carried = nil
	switch {
	case c.wanted != nil:
		c.carried, c.carriedAs, c.sent = c.wanted, c.version, c.version
	case c.doubt != trust.Instant{}:
		c.carried, c.carriedAs = maps.Clone(c.confirmed), c.granted
		if c.carried == nil {
			c.carried = map[string]string{}
		}
	}
	return c.carried
}

// renewed notes the success of a renewal sent at the given instant. Caller holds mu.
func (c *metadataChange) renewed(sent trust.Instant) {
	if c.carried == nil {
		return
	}
	c.confirmed, c.granted = c.carried, c.carriedAs
	if c.carriedAs == c.version {
		c.wanted = nil
	}
	if c.doubt.Left(sent) <= 0 {
		c.doubt = trust.Instant{}
	}
}

// landed notes that an overdue request has returned. The next renewal undoes a change
// that the request may have made. Caller holds mu.
func (c *metadataChange) landed(now trust.Instant, v verdict) {
	if v.applied && c.doubt.Left(now) < 0 {
		c.doubt = now
	}
}

// failed notes a failed renewal, which may land until the given instant. Metadata that the
// backend refuses is dropped: it must not cost the lease. Caller holds mu.
func (c *metadataChange) failed(until trust.Instant, err error, v verdict) {
	switch {
	case c.carried == nil:
	case v.applied:
		c.doubt = until
	case !v.permanent:
	case c.wanted == nil:
		c.doubt = trust.Instant{}
	default:
		c.refused, c.refusal = c.carriedAs, err
		if c.carriedAs == c.version {
			c.wanted = nil
		}
	}
}
