package semaphore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing"
)

// MaxPermits bounds Options.Permits. A waiting process has to look at every
// slot once in a while, so a semaphore of more is better split by a key.
const MaxPermits = 10_000

// Options describe a semaphore.
type Options struct {
	// Name of the semaphore. Required. Its slots are leases called
	// Name/slot/0, Name/slot/1 and so on; metrics and Manager.List with that
	// prefix show them. Use these names for nothing else.
	Name string
	// Permits is how many may be held at a time, in all processes together: 1
	// to MaxPermits. Required. See the package's documentation for processes
	// that disagree.
	Permits int

	// Lease configures the lease of each permit: its TTL, say, or Metadata.
	// Its WaitLimit is how long Acquire and Do wait at most; TryAcquire and TryDo
	// do not wait.
	Lease leasing.AcquireOptions

	// Tries is how many slots TryAcquire asks for at most. With more permits
	// than that it may miss a free one. Default 32.
	Tries int
	// Watch is how many slots a process queues for while anybody in it waits.
	// More get a permit sooner after its release, at a cost: see the package's
	// documentation. Default 4.
	Watch int
	// Sweep is how long it may take at most until a process in which somebody
	// waits has asked for each slot; a backend that is slow or down apart.
	// Default 1 min.
	Sweep time.Duration
}

const (
	defaultTries = 32
	defaultWatch = 4
	defaultSweep = time.Minute
	maxSweep     = 24 * time.Hour
)

func (o Options) withDefaults(c leasing.Capabilities) (Options, error) {
	if o.Tries == 0 {
		o.Tries = defaultTries
	}
	if o.Watch == 0 {
		o.Watch = defaultWatch
	}
	if o.Sweep == 0 {
		o.Sweep = defaultSweep
	}
	return o, o.validate(c)
}

func (o Options) validate(c leasing.Capabilities) error {
	switch {
	case o.Permits < 1 || o.Permits > MaxPermits:
		return &leasing.InvalidError{Field: "Options.Permits", Value: o.Permits, Want: fmt.Sprintf("1 to %d", MaxPermits)}
	case o.Lease.WaitLimit < 0:
		return &leasing.InvalidError{Field: "Options.Lease.WaitLimit", Value: o.Lease.WaitLimit, Want: "0 for no limit, or more; to ask once there is TryAcquire"}
	case o.Tries < 0:
		return &leasing.InvalidError{Field: "Options.Tries", Value: o.Tries, Want: "1 or more; or 0 for the default"}
	case o.Watch < 0:
		return &leasing.InvalidError{Field: "Options.Watch", Value: o.Watch, Want: "1 or more; or 0 for the default"}
	case o.Sweep < time.Second || o.Sweep > maxSweep:
		return &leasing.InvalidError{Field: "Options.Sweep", Value: o.Sweep, Want: fmt.Sprintf("1s to %v; or 0 for the default", maxSweep)}
	}
	if err := leasing.ValidateName(o.Name); err != nil {
		return err
	}
	limit := leasing.MaxNameBytes
	if c.MaxNameBytes > 0 {
		limit = min(limit, c.MaxNameBytes)
	}
	if suffix := len(o.slotName(o.Permits-1)) - len(o.Name); len(o.Name)+suffix > limit {
		return &leasing.InvalidError{Field: "Options.Name", Value: o.Name, Want: fmt.Sprintf("at most %d bytes, since slots have longer names", limit-suffix)}
	}
	return nil
}

// slotName is the name of a slot's lease. "slot" is a part of its own so that
// no more than one scope of metrics comes of a name without parts.
func (o Options) slotName(slot int) string {
	return o.Name + "/slot/" + strconv.Itoa(slot)
}

const (
	// shortestPause is the least time from one look at another slot to the next.
	shortestPause = 25 * time.Millisecond
	// longestPause is the most, however few slots there are.
	longestPause = 500 * time.Millisecond
	// maxThrottle bounds the pause that a backend may ask for.
	maxThrottle = time.Minute
)

// pause is how long to wait before the n-th look (from 0) at another slot
// while somebody waits: it grows from shortestPause to what lets each of the
// given slots be looked at once in a sweep, and up to a half is taken off at
// random. random is from 0 up to 1.
func (o Options) pause(n, slots int, random float64) time.Duration {
	pause := min(longestPause, o.Sweep/time.Duration(max(1, slots)))
	if n < 16 {
		pause = min(pause, shortestPause<<n)
	}
	pause = max(pause, time.Millisecond)
	return pause - time.Duration(random*float64(pause)/2)
}
