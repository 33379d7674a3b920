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
// where that clock is missing.
type instant struct {
	mono, boot time.Duration
}

func (i instant) add(d time.Duration) instant {
	return instant{addSaturated(i.mono, d), addSaturated(i.boot, d)}
}

// left returns the time from now until i by the clock that reaches i sooner.
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

// window returns the time for which a grant of ttl may be trusted, counted from the instant before its
// request was sent: ttl less the margin by which the backend's clock may run faster
// than ours. 0 or less means no trust.
func (o *Options) window(ttl time.Duration) time.Duration {
	if ttl == Infinite {
		return forever
	}
	return ttl - time.Duration(math.Ceil(float64(ttl)*o.Tuning.DriftFactor)) - o.Tuning.DriftFloor
}

// clock reads both clocks of an instant and has an alarm that fires after a suspend.
type clock struct {
	start time.Time
	// boot reads CLOCK_BOOTTIME; nil where that clock is missing.
	boot      func() time.Duration
	bootStart time.Duration
	// alarm fires by the boot clock; never where that clock is missing.
	alarm bootAlarm
}

// bootAlarm is a timer on the boot clock. Go's timers do not replace this alarm: like
// Go's monotonic clock they stand still while the machine sleeps, and after a resume
// they would still have all their time to run.
type bootAlarm interface {
	set(in time.Duration) // from now, replacing the earlier time
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

// mono returns the monotonic part of now for a fifth of the cost. That is enough where time is
// only measured, and no trust depends on the reading.
func (c *clock) mono() time.Duration { return time.Since(c.start) }

// time is the wall-clock reading that belongs to i, for people to read.
func (c *clock) time(mono time.Duration) time.Time { return c.start.Add(mono) }
