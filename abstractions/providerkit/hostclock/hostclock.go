// Package hostclock reads the clocks that the processes of one host share.
package hostclock

import (
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Time is one reading of the clocks of a host, for stores that the processes of
// one host share. See Now.
type Time struct {
	Wall time.Time // without Go's monotonic reading
	// Boot identifies the present boot of the host, and the time namespace. SinceBoot
	// can be compared only within one Boot. Boot is "" on a host without a BOOTTIME
	// clock.
	Boot string
	// SinceBoot is CLOCK_BOOTTIME, which can't be set, and which counts the time
	// while the host is suspended.
	SinceBoot time.Duration
}

// Deadline is the end of a lease on both clocks, in microseconds and rounded
// up. The zero value belongs to a lease that never ends.
type Deadline struct {
	Wall      int64  `json:"wall_us,omitempty"` // since 1970
	Boot      string `json:"boot,omitempty"`
	SinceBoot int64  `json:"boot_us,omitempty"` // meaningful if Boot isn't ""
}

// Deadline returns the end of a lease that has the given time left now.
func (t Time) Deadline(left time.Duration) Deadline {
	if left == abstractions.Infinite {
		return Deadline{}
	}
	lasts := ceilMicro(left)
	wall := t.Wall.UnixMicro() + lasts
	if t.Wall.Nanosecond()%1000 > 0 {
		wall++
	}
	d := Deadline{Wall: wall, Boot: t.Boot}
	if t.Boot != "" {
		d.SinceBoot = ceilMicro(t.SinceBoot) + lasts
	}
	return d
}

// Left returns the time that a lease with this deadline has left.
//
// If the deadline was written in the present boot, only the BOOTTIME clock decides, so a step of the wall clock does not free a
// name early or late. Otherwise the wall clock decides: the BOOTTIME clocks of two boots can't be compared, and the holders of
// the earlier boot are dead. See providerkit.Record.SetLeft for a wall clock that went back.
func (d Deadline) Left(now Time) time.Duration {
	switch {
	case d.Wall == 0:
		return abstractions.Infinite
	case d.Boot != "" && d.Boot == now.Boot:
		return time.Duration(d.SinceBoot)*time.Microsecond - now.SinceBoot
	default:
		return time.UnixMicro(d.Wall).Sub(now.Wall)
	}
}

// OtherBoot reports whether the deadline was written before the host's present boot, or without a
// BOOTTIME clock: see providerkit.Record.Unsettled. Another time namespace of the same boot does
// not count, since two namespaces would take turns rewriting the deadline.
func (d Deadline) OtherBoot(now Time) bool {
	written, _, _ := strings.Cut(d.Boot, " ")
	present, _, _ := strings.Cut(now.Boot, " ")
	return d.Wall != 0 && present != "" && written != present
}

// ceilMicro returns d in microseconds, rounded up, so that no lease ends early.
func ceilMicro(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}
