package torture

import "time"

// clock tells the time since the start of a run. Processes of one machine share
// it, where the machine has a monotonic clock that they share.
type clock struct {
	base   time.Time
	offset time.Duration // of base, since the start
}

// startClock starts a run now.
func startClock() *clock { return &clock{base: time.Now()} }

// joinClock is for another process of the run that started at the machine's
// instant epoch.
func joinClock(epoch time.Duration) *clock {
	return &clock{base: time.Now(), offset: machineTime() - epoch}
}

// epoch is the machine's instant at which the run started, for joinClock.
func (c *clock) epoch() time.Duration { return machineTime() - c.now() }

func (c *clock) now() time.Duration { return c.at(time.Now()) }

// at is the time of an instant that this process has read from its clock.
func (c *clock) at(t time.Time) time.Duration { return c.offset + t.Sub(c.base) }
