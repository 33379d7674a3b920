package providerkit

import (
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// HostTime is one reading of the clocks of a host, for stores that the processes of
// one host share. See HostClock.
type HostTime struct {
	Wall time.Time // without Go's monotonic reading
	// Boot names the present boot of the host, and of the time namespace, in which
	// alone SinceBoot can be compared. It is "" where there is no such clock.
	Boot string
	// SinceBoot is CLOCK_BOOTTIME, which nobody can set, and which counts the time
	// in which the host is suspended.
	SinceBoot time.Duration
}

// HostDeadline is the end of a lease on both clocks, in microseconds and rounded
// up. The zero value is of a lease that never ends.
type HostDeadline struct {
	Wall      int64  `json:"wall_us,omitempty"` // since 1970
	Boot      string `json:"boot,omitempty"`
	SinceBoot int64  `json:"boot_us,omitempty"` // meaningful if Boot isn't ""
}

// Deadline returns the end of a lease that has so much left now.
func (t HostTime) Deadline(left time.Duration) HostDeadline {
	if left == abstractions.Infinite {
		return HostDeadline{}
	}
	lasts := ceilMicro(left)
	wall := t.Wall.UnixMicro() + lasts
	if t.Wall.Nanosecond()%1000 > 0 {
		wall++
	}
	d := HostDeadline{Wall: wall, Boot: t.Boot}
	if t.Boot != "" {
		d.SinceBoot = ceilMicro(t.SinceBoot) + lasts
	}
	return d
}

// Left is how long a lease with this deadline has to run.
//
// In the boot in which the deadline was written the BOOTTIME clock decides alone: a
// step of the wall clock neither frees a name early nor keeps it. In another boot
// it says nothing, and the wall clock decides; the holders of the earlier boot are
// dead anyway. See Record.SetLeft for a wall clock that went back.
func (d HostDeadline) Left(now HostTime) time.Duration {
	switch {
	case d.Wall == 0:
		return abstractions.Infinite
	case d.Boot != "" && d.Boot == now.Boot:
		return time.Duration(d.SinceBoot)*time.Microsecond - now.SinceBoot
	default:
		return time.UnixMicro(d.Wall).Sub(now.Wall)
	}
}

// OtherBoot reports whether the deadline was written before the host's present
// boot, or where there was no BOOTTIME clock: see Record.Unsettled. Another time
// namespace of the same boot is none; two of them would rewrite it in turns.
func (d HostDeadline) OtherBoot(now HostTime) bool {
	written, _, _ := strings.Cut(d.Boot, " ")
	present, _, _ := strings.Cut(now.Boot, " ")
	return d.Wall != 0 && present != "" && written != present
}

// ceilMicro is d in microseconds, rounded up: never early.
func ceilMicro(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}
