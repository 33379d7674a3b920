package sqllease

import (
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// instant is one reading of the host's clocks.
type instant struct {
	wall time.Time // without Go's monotonic reading
	// boot names the present boot of the host, as far as its BOOTTIME clock
	// can be compared: "" where there is none.
	boot string
	// sinceBoot is CLOCK_BOOTTIME, which nobody can set, and which counts the
	// time in which the host is suspended.
	sinceBoot time.Duration
}

// deadline is the end of a lease, on both clocks.
type deadline struct {
	wall *int64 // microseconds since 1970; nil for never
	boot string // the boot in which it was written
	// sinceBoot is in microseconds; meaningful if boot isn't "".
	sinceBoot int64
}

// deadlineIn is the deadline one TTL from now. It is rounded up.
func deadlineIn(now instant, ttl time.Duration) deadline {
	d := micros(ttl)
	if d == nil {
		return deadline{}
	}
	wall := ceilMicro(now.wall) + *d
	return deadline{wall: &wall, boot: now.boot, sinceBoot: *micros(now.sinceBoot) + *d}
}

// ceilMicro is t in microseconds since 1970, rounded up.
func ceilMicro(t time.Time) int64 {
	us := t.UnixMicro()
	if t.Nanosecond()%1000 > 0 {
		us++
	}
	return us
}

// left is how long a lease with this deadline has to run.
//
// In the boot in which the deadline was written, the BOOTTIME clock decides
// alone: an operator or an NTP daemon that steps the wall clock neither frees a
// name early nor keeps it for ever. In another boot it says nothing, and the
// wall clock decides; the claimants of the earlier boot are dead anyway.
func (d deadline) left(now instant) time.Duration {
	switch {
	case d.wall == nil:
		return abstractions.Infinite
	case d.boot != "" && d.boot == now.boot:
		return time.Duration(d.sinceBoot)*time.Microsecond - now.sinceBoot
	default:
		return time.UnixMicro(*d.wall).Sub(now.wall)
	}
}

// otherBoot reports whether the deadline was written before the host's present
// boot, or where there was no BOOTTIME clock. Another time namespace of the
// same boot is none: two of them would rewrite it in turns for nothing.
func (d deadline) otherBoot(now instant) bool {
	written, _, _ := strings.Cut(d.boot, " ")
	present, _, _ := strings.Cut(now.boot, " ")
	return present != "" && written != present
}

// slewed is by how much the two clocks may disagree before it matters to
// people: the wall clock is adjusted, and they are read one after the other.
const slewed = 20 * time.Millisecond

// shown is the end as the wall clock tells it, which is the same at every
// reading, or zero if the clock has been stepped since.
func (d deadline) shown(now instant) time.Time {
	left := d.left(now)
	if left == abstractions.Infinite {
		return time.Time{}
	}
	wall := time.UnixMicro(*d.wall).UTC()
	if wall.Sub(now.wall.Add(left)).Abs() > slewed {
		return time.Time{}
	}
	return wall
}
