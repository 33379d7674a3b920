package leasing

import (
	"math"
	"time"
)

// forever is an instant's coordinate that no clock reaches.
const forever = time.Duration(math.MaxInt64)

// instant is one moment on two clocks, each counted from the manager's start.
// mono is Go's monotonic clock, which stands still while a machine is suspended
// (golang.org/issue/24595); boot is Linux' CLOCK_BOOTTIME, which runs on, or 0
// where there is none.
type instant struct {
	mono, boot time.Duration
}

func (i instant) add(d time.Duration) instant {
	return instant{addSaturated(i.mono, d), addSaturated(i.boot, d)}
}

// left is how long it is from now until i by the clock that gets there first.
// Where boot is always 0 it never decides: i.boot is then at least i.mono - now.mono.
func (i instant) left(now instant) time.Duration {
	if i.mono == forever {
		return forever
	}
	return min(i.mono-now.mono, i.boot-now.boot)
}

func addSaturated(a, b time.Duration) time.Duration {
	if b > forever-a {
		return forever
	}
	return a + b
}

// drift is the bound on how much faster the backend's clock may run than ours.
type drift struct {
	factor float64
	floor  time.Duration
}

// window is how long a grant of ttl may be trusted, counted from the instant
// before its request was sent: ttl less the margin. 0 or less: not at all.
func (d drift) window(ttl time.Duration) time.Duration {
	if ttl == Infinite {
		return forever
	}
	return ttl - time.Duration(math.Ceil(float64(ttl)*d.factor)) - d.floor
}
