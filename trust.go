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

// window is how long a grant of ttl may be trusted, counted from the instant before its
// request was sent: ttl less the margin by which the backend's clock may run faster
// than ours. 0 or less: not at all.
func (o *Options) window(ttl time.Duration) time.Duration {
	if ttl == Infinite {
		return forever
	}
	return ttl - time.Duration(math.Ceil(float64(ttl)*o.Tuning.DriftFactor)) - o.Tuning.DriftFloor
}

// clock reads both clocks of an instant and tells of a resume after a suspend.
type clock struct {
	start time.Time
	// boot reads CLOCK_BOOTTIME; nil where there is none.
	boot      func() time.Duration
	bootStart time.Duration
	// alarm fires by the boot clock; never where there is none.
	alarm bootAlarm
}

// bootAlarm is a timer on the boot clock. It exists because Go's timers, like
// its monotonic clock, stand still while the machine sleeps: after a resume
// they would still have all their time to go.
type bootAlarm interface {
	set(in time.Duration) // from now, replacing what was set before
	fired() <-chan struct{}
	close()
}

func newClock(boot func() time.Duration, alarm bootAlarm) *clock {
	c := &clock{start: time.Now(), boot: boot, alarm: alarm}
	if boot != nil {
		c.bootStart = boot()
	}
	if alarm == nil {
		c.alarm = noAlarm{}
	}
	return c
}

type noAlarm struct{}

func (noAlarm) set(time.Duration)      {}
func (noAlarm) fired() <-chan struct{} { return nil }
func (noAlarm) close()                 {}

func (c *clock) now() instant {
	i := instant{mono: time.Since(c.start)}
	if c.boot != nil {
		i.boot = c.boot() - c.bootStart
	}
	return i
}

// mono is the monotonic part of now, a fifth of its cost: enough where time is
// only measured, and no trust hangs on it.
func (c *clock) mono() time.Duration { return time.Since(c.start) }

// time is the wall-clock reading that belongs to i, for people to read.
func (c *clock) time(mono time.Duration) time.Time { return c.start.Add(mono) }
