package cosmoslease

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// resolution is that of the service's times, _ts and Date.
const resolution = time.Second

// expiry decides when a lease is over, by the service's time alone. It knows it to
// the second, and from two clocks: _ts is a replica's, Date a gateway's.
//
// Let a holder write at w, and somebody read at r. Both times are cut down to
// seconds, so _ts > w - 1 s and Date <= r, but for what the two clocks disagree by,
// for which skew allows. So Date - _ts >= TTL + 1 s + skew says that r - w >= TTL: the
// TTL is over, and the holder, who counts from before its write was sent, has
// stopped to trust its lease. That can be late by a second of Date's, by skew if the
// clocks agree, and by as much again if they disagree the other way: see precision.
//
// A read may come from a replica that lags. Then it shows an earlier write, whose
// lease may well look expired; the replacement that follows has that write's ETag,
// and fails.
type expiry struct{ skew time.Duration }

// grace is for how long after its end a lease is still taken for held.
func (e expiry) grace() time.Duration { return resolution + e.skew }

// precision bounds how late a lease that is over is free.
func (e expiry) precision() time.Duration { return 2*resolution + 2*e.skew }

// ends is the end of the lease by the clock of _ts; zero for an infinite one.
func (s snapshot) ends() time.Time {
	switch h := s.doc.Holder; {
	case h.infinite():
		return time.Time{}
	case h.Ends != 0:
		return time.UnixMilli(h.Ends).UTC()
	default:
		return s.ts.Add(h.ttl())
	}
}

// free is when the name is free; zero for an infinite lease.
func (e expiry) free(s snapshot) time.Time {
	ends := s.ends()
	if ends.IsZero() {
		return ends
	}
	return ends.Add(e.grace())
}

// over reports whether nobody holds the name, by the service's time.
func (e expiry) over(s snapshot) bool {
	if s.doc == nil || s.doc.Holder == nil {
		return true
	}
	free := e.free(s)
	return !free.IsZero() && !s.now.IsZero() && !s.now.Before(free)
}

// keepEnd makes sure that a write which is not the holder's prolongs nothing:
// it moves _ts.
func (s snapshot) keepEnd(next *document) {
	if h := next.Holder; h != nil && !h.infinite() && h.Ends == 0 {
		h.Ends = s.ends().UnixMilli()
	}
}

// record is what package leasing shows of a snapshot.
func (e expiry) record(name string, s snapshot) abstractions.Record {
	r := abstractions.Record{Name: name, Now: s.now}
	if s.doc == nil {
		return r
	}
	r.Token = s.doc.Token
	if e.over(s) {
		return r
	}
	h := s.doc.Holder
	r.Held, r.ID, r.Owner, r.Metadata = true, h.ID, h.Owner, h.Metadata
	r.TTL, r.Breaking = h.ttl(), h.Breaking
	r.AcquiredAt = time.UnixMilli(h.Acquired).UTC()
	r.ExpiresAt = e.free(s)
	return r
}
