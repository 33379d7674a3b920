package leasing

import "time"

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
