package lifecycle

import (
	"math"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/trust"
)

const (
	// DefaultFraction is the part of the TTL after which a renewal is sent.
	DefaultFraction = 0.6
	// renewJitter is the part of the cadence that is taken off at random, so
	// that leases acquired together don't stay in step. It is a part, not a
	// time: a second of jitter would be too much for a TTL of two seconds.
	renewJitter = 0.1
	// MinRetry is the shortest pause before a retry, and so the least remaining trust with which another attempt makes sense.
	MinRetry = 5 * time.Millisecond
)

// nextRenew returns the time of the next renewal.
func (l *Lease) nextRenew() trust.Instant { return l.lastSent.Add(l.renewIn) }

// planRenewal sets the time of the next renewal, counted from when the last renewal was sent.
func (l *Lease) planRenewal(random float64) {
	cadence := l.settings.Cadence
	if l.usedUp() || cadence == trust.Forever {
		l.renewIn = trust.Forever
		return
	}
	if trusted := min(l.granted, l.ttlChange.trustLimit()); trusted < l.settings.TTL && l.settings.TTL != abstractions.Infinite { // less than the requested TTL
		cadence = min(cadence, time.Duration(DefaultFraction*float64(trusted)))
	}
	l.renewIn = cadence - time.Duration(float64(cadence)*renewJitter*random)
}

// planRetry sets the time of the next renewal after a failure. A lease that is renewed by hand has no retry.
func (l *Lease) planRetry(now trust.Instant, left time.Duration, throttled *abstractions.ThrottledError, random float64) {
	if l.settings.Cadence == trust.Forever {
		return
	}
	pause := min(RetryPause(int(l.failures), l.settings.FirstTTL, left, random), l.settings.Cadence)
	if throttled != nil {
		pause = min(max(pause, throttled.RetryAfter), max(left/3, MinRetry), max(l.settings.Cadence, MinRetry))
	}
	l.renewIn = now.Mono - l.lastSent.Mono + pause
}

// AttemptBound returns the bound of one renewal: a third of the trust left, so
// that three attempts fit.
func AttemptBound(left, limit time.Duration) time.Duration {
	if left == trust.Forever {
		return limit
	}
	return min(left/3, limit)
}

// RetryPause returns the pause after the n-th failure in a row (from 1). The pause begins with a fiftieth of the TTL (at most a
// second), doubles, and is jittered by a half. It stays within a tenth of the trust left, so that attempts become more frequent
// towards the end.
func RetryPause(n int, ttl, left time.Duration, random float64) time.Duration {
	pause := time.Duration(math.Ldexp(float64(min(ttl/50, time.Second)), min(n-1, 10)))
	pause = min(pause, left/10)
	pause -= time.Duration(float64(pause) * random / 2)
	return max(pause, MinRetry)
}
