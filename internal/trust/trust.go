// Package trust computes the time by which a holder has to stop trusting its lease: instants on two clocks, the window of a
// grant with its margin, and the clock that an engine reads. Instants and windows are plain values. A Clock is safe for
// concurrent use.
package trust

import (
	"math"
	"time"
)

// Forever is a coordinate of an instant that no clock reaches. It equals abstractions.Infinite.
const Forever = time.Duration(math.MaxInt64)

// Instant is one moment on two clocks, each counted from the start of a Clock. Mono is Go's
// monotonic clock, which stands still while a machine is suspended (golang.org/issue/24595). Boot
// is Linux's CLOCK_BOOTTIME, which runs on, or 0 where that clock is missing.
type Instant struct {
	Mono, Boot time.Duration
}

// Add returns the instant that follows i by d. A coordinate of Forever stays Forever.
func (i Instant) Add(d time.Duration) Instant {
	return Instant{AddSaturated(i.Mono, d), AddSaturated(i.Boot, d)}
}

// Left returns the time from now until i by the clock that reaches i sooner. Where the boot clock
// is missing, now.Boot is 0 and i.Boot is at least i.Mono - now.Mono, so Mono decides.
func (i Instant) Left(now Instant) time.Duration {
	if i.Mono == Forever {
		return Forever
	}
	return min(i.Mono-now.Mono, i.Boot-now.Boot)
}

// Sooner returns the coordinates of i and other that are reached sooner, each on its own clock.
func (i Instant) Sooner(other Instant) Instant {
	return Instant{min(i.Mono, other.Mono), min(i.Boot, other.Boot)}
}

// AddSaturated returns a + b, or Forever where the sum would be later. Neither may be less than -Forever.
func AddSaturated(a, b time.Duration) time.Duration {
	if b > Forever-a {
		return Forever
	}
	return a + b
}

// Window returns the time for which a grant of ttl may be trusted, counted from the instant before its
// request was sent: ttl less the margin by which the backend's clock may run faster
// than this process's. The margin is factor times the TTL, plus floor. 0 or less means no trust.
func Window(ttl time.Duration, factor float64, floor time.Duration) time.Duration {
	if ttl == Forever {
		return Forever
	}
	return ttl - time.Duration(math.Ceil(float64(ttl)*factor)) - floor
}
