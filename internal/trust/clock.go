package trust

import (
	"sync/atomic"
	"time"
)

// Clock reads both clocks of an Instant and has an alarm that fires after a suspend.
type Clock struct {
	// Alarm is set on the boot clock. It never fires where that clock is missing.
	Alarm Alarm

	start     time.Time
	boot      func() time.Duration // reads CLOCK_BOOTTIME; nil where that clock is missing
	bootStart time.Duration
}

// Alarm is a timer on the boot clock. Go's timers can't replace this alarm: like Go's monotonic clock they stand still while the
// machine sleeps, and after a resume their whole time would still be left.
type Alarm interface {
	// Set makes the alarm fire after the given time. It replaces an earlier Set.
	Set(in time.Duration)
	// Fired returns the channel that receives a value when the alarm fires; nil for an alarm that never fires.
	Fired() <-chan struct{}
	// Close releases the alarm.
	Close()
}

// NewClock returns a clock that begins at the zero Instant. boot and alarm are nil where there is no boot clock.
func NewClock(boot func() time.Duration, alarm Alarm) *Clock {
	c := &Clock{start: time.Now(), boot: boot, Alarm: alarm}
	if boot != nil {
		c.bootStart = boot()
	}
	if alarm == nil {
		c.Alarm = noAlarm{}
	}
	return c
}

// New returns the clock of a new manager: SystemClock, or the replacement of a test.
func New() *Clock {
	if replaced := replacement.Load(); replaced != nil {
		return (*replaced)()
	}
	return SystemClock()
}

var replacement atomic.Pointer[func() *Clock]

// Replace makes New return the clocks of newClock until restore is called. It is for the tests of this module.
func Replace(newClock func() *Clock) (restore func()) {
	before := replacement.Swap(&newClock)
	return func() { replacement.Store(before) }
}

type noAlarm struct{}

func (noAlarm) Set(time.Duration)      {}
func (noAlarm) Fired() <-chan struct{} { return nil }
func (noAlarm) Close()                 {}

// Now returns the current instant.
func (c *Clock) Now() Instant {
	i := Instant{Mono: time.Since(c.start)}
	if c.boot != nil {
		i.Boot = c.boot() - c.bootStart
	}
	return i
}

// Mono returns the monotonic part of Now at a fifth of the cost. That is enough where time is only
// measured, and no trust depends on the reading.
func (c *Clock) Mono() time.Duration { return time.Since(c.start) }

// Time returns the wall-clock reading that belongs to the monotonic part of an instant, for people to read.
func (c *Clock) Time(mono time.Duration) time.Time { return c.start.Add(mono) }
