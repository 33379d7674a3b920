package lifecycle

import (
	"maps"

	"github.com/distributedleasing/leasing/internal/trust"
)

// metadataChange has the metadata that WantMetadata wants renewals to carry. A lease whose
// metadata never changes has no metadataChange.
//
// A request that carried a change and was not answered may have been applied, or may yet be
// applied. So a change stays wanted until a renewal with it has succeeded or was refused. Every
// renewal carries the confirmed metadata until no unanswered request is left that could undo the
// change.
type metadataChange struct {
	confirmed map[string]string // by the backend; the map is replaced, never changed

	wanted  map[string]string // nil if there is nothing to change
	version int               // of wanted: counts the calls to WantMetadata

	carried   map[string]string // by the renewal under way; nil if it carries none
	carriedAs int               // the version of carried
	sent      int               // the latest version that a renewal carried
	granted   int               // the latest version that the backend confirmed
	refused   int               // the latest version that the backend refused; refusal is the error
	refusal   error
	mayLand   trust.Instant // until when an unanswered request may land; zero for no such request
}

// MetadataVersions says how far the changes to a lease's metadata have come.
type MetadataVersions struct {
	Sent    int // the latest version that a renewal carried
	Granted int // the latest that the backend confirmed
	Refused int // the latest that the backend refused, with Refusal
	Refusal error
}

// WantMetadata notes that the next renewals carry metadata, instead of the metadata of the acquire. It returns the version
// of that change.
func (l *Lease) WantMetadata(metadata, acquired map[string]string) (version int) {
	if l.metadataChange == nil {
		l.metadataChange = &metadataChange{confirmed: acquired}
	}
	l.metadataChange.version++
	l.metadataChange.wanted = maps.Clone(metadata)
	if metadata == nil {
		l.metadataChange.wanted = map[string]string{}
	}
	return l.metadataChange.version
}

// MetadataVersions returns the latest versions that were sent, granted and refused.
func (l *Lease) MetadataVersions() MetadataVersions {
	c := l.metadataChange
	return MetadataVersions{Sent: c.sent, Granted: c.granted, Refused: c.refused, Refusal: c.refusal}
}

// Metadata returns the metadata that the backend confirmed last. changed is false, and the metadata nil, if
// WantMetadata was never called.
func (l *Lease) Metadata() (confirmed map[string]string, changed bool) {
	if l.metadataChange == nil {
		return nil, false
	}
	return l.metadataChange.confirmed, true
}

// carry returns the metadata that the next renewal carries.
func (c *metadataChange) carry() map[string]string {
	c.carried = nil
	switch {
	case c.wanted != nil:
		c.carried, c.carriedAs, c.sent = c.wanted, c.version, c.version
	case c.mayLand != trust.Instant{}:
		c.carried, c.carriedAs = maps.Clone(c.confirmed), c.granted
		if c.carried == nil {
			c.carried = map[string]string{}
		}
	}
	return c.carried
}

// noteSuccess notes the success of a renewal sent at the given instant.
func (c *metadataChange) noteSuccess(sent trust.Instant) {
	if c.carried == nil {
		return
	}
	c.confirmed, c.granted = c.carried, c.carriedAs
	if c.carriedAs == c.version {
		c.wanted = nil
	}
	if c.mayLand.Left(sent) <= 0 {
		c.mayLand = trust.Instant{}
	}
}

// noteLateReply notes that an overdue request has returned. The next renewal undoes a change
// that the request may have made.
func (c *metadataChange) noteLateReply(now trust.Instant, applied bool) {
	if applied && c.mayLand.Left(now) < 0 {
		c.mayLand = now
	}
}

// noteFailure notes a failed renewal, which may land until the given instant. Metadata that the
// backend refuses is dropped, so that the next renewals don't fail for the same reason.
func (c *metadataChange) noteFailure(until trust.Instant, err error, a *Answer) {
	switch {
	case c.carried == nil:
	case a.Applied:
		c.mayLand = until
	case !a.Permanent:
	case c.wanted == nil:
		c.mayLand = trust.Instant{}
	default:
		c.refused, c.refusal = c.carriedAs, err
		if c.carriedAs == c.version {
			c.wanted = nil
		}
	}
}
