package lifecycle

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

// Clone returns a copy that shares nothing that an input changes. Metadata maps are never changed.
func (l *Lease) Clone() Lease {
	next := *l
	if l.ttlChange != nil {
		t := *l.ttlChange
		next.ttlChange = &t
	}
	if l.metadataChange != nil {
		c := *l.metadataChange
		next.metadataChange = &c
	}
	return next
}

// Key appends to b the state that later steps depend on. Instants are relative to now. waits says that a request is under way.
func (l *Lease) Key(b []byte, now, unit time.Duration, waits bool) []byte {
	b = append(b, byte(l.phase), byte(min(l.failures, 2)), Bits(l.renewing, l.ambiguous, l.renewalUnanswered, l.granted == abstractions.Infinite))
	if l.phase < Ended || waits {
		lastSent := l.lastSent.Add(max(l.settings.FirstTTL, l.ttlChange.longestTTL()))
		for _, at := range [...]trust.Instant{l.until, lastSent, l.sent.Add(l.granted), l.nextRenew(), l.mayLand, l.atLeastUntil} {
			b = append(b, Until(at.Mono, now, unit))
		}
	}
	if l.phase == Ended { // a late reply may ask for a clean-up
		_, lost := l.outcome.(*abstractions.LostError) //nolint:errorlint // as Lose has set it
		b = append(b, Bits(lost), Until(l.sent.Add(l.granted).Mono, now, unit))
	}
	if t := l.ttlChange; t != nil {
		b = append(b, byte(t.version), byte(t.carried), byte(t.granted), byte(t.asked/unit), byte(t.longest/unit), byte(min(t.unanswered/unit, 100)))
	}
	if c := l.metadataChange; c != nil {
		b = append(b, byte(c.version), byte(c.sent), byte(c.granted), byte(c.carriedAs), Bits(c.wanted != nil, c.carried != nil), Until(c.mayLand.Mono, now, unit))
		for _, v := range c.confirmed {
			b = append(b, v...)
		}
	}
	if l.settings.MaxRenewals > 0 {
		b = append(b, byte(l.renewals))
	}
	return b
}

// Until returns the units from now to an instant, rounded up: 0 for the past, 255 for trust.Forever.
func Until(at, now, unit time.Duration) byte {
	if at == trust.Forever {
		return 255
	}
	return byte(min(max((at-now+unit-1)/unit, 0), 254))
}

// Bits packs flags.
func Bits(flags ...bool) (b byte) {
	for _, on := range flags {
		b <<= 1
		if on {
			b |= 1
		}
	}
	return b
}
