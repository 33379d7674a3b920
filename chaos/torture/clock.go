package torture

import (
	"math"
	"time"
)

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
	base, machine := together()
	return &clock{base: base, offset: machine - epoch}
}

// epoch is the machine's instant at which the run started, for joinClock.
func (c *clock) epoch() time.Duration {
	now, machine := together()
	return machine - c.at(now)
}

// together reads both clocks at the same time, or nearly: between two readings a
// process may wait long for a processor, and all its times would be wrong by that.
func together() (now time.Time, machine time.Duration) {
	best := time.Duration(math.MaxInt64)
	for range 1000 {
		before := machineTime()
		t := time.Now()
		if took := machineTime() - before; took < best {
			best, now, machine = took, t, before+took/2
		}
		if best < 100*time.Microsecond {
			break
		}
	}
	return now, machine
}

func (c *clock) now() time.Duration { return c.at(time.Now()) }

// at is the time of an instant that this process has read from its clock.
func (c *clock) at(t time.Time) time.Duration { return c.offset + t.Sub(c.base) }
