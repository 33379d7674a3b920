package semaphore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// MaxPermits bounds Options.Permits, since a waiting process must try every slot
// from time to time. Split a larger semaphore by a key.
const MaxPermits = 10_000

// Options describe a semaphore.
type Options struct {
	// Name is the name of the semaphore. Required. Its slots are leases named Name/slot/0,
	// Name/slot/1 and so on; metrics, and Manager.List with that prefix, show the slots. Do not use these names for anything
	// else.
	Name string
	// Permits is the number of permits that all processes together may hold at
	// a time: 1 to MaxPermits. Required. See the package's documentation for
	// processes that disagree.
	Permits int

	// Lease configures the lease of each permit: its TTL or Metadata, for
	// example. Its WaitLimit bounds the wait of Acquire and Do; TryAcquire and
	// TryDo do not wait.
	Lease leasing.AcquireOptions
}

func (o Options) validate(c leasing.Capabilities) error {
	switch {
	case o.Permits < 1 || o.Permits > MaxPermits:
		return &leasing.InvalidError{Field: "Options.Permits", Value: o.Permits, Want: fmt.Sprintf("1 to %d", MaxPermits)}
	case o.Lease.WaitLimit < 0:
		return &leasing.InvalidError{Field: "Options.Lease.WaitLimit", Value: o.Lease.WaitLimit, Want: "0 for no limit, or more; to ask once there is TryAcquire"}
	}
	return recipe.ValidateName(o.Name, len(o.slotName(o.Permits-1))-len(o.Name), c)
}

// slotName returns the name of a slot's lease. All slots of a semaphore have the same first part,
// which is the default scope of metrics.
func (o Options) slotName(slot int) string {
	return o.Name + "/slot/" + strconv.Itoa(slot)
}

const (
	// maxTries is the maximum number of slots that a TryAcquire requests.
	maxTries = 32
	// watchedSlots is the number of slots for which a process with waiters waits at the backend.
	watchedSlots = 4
	// sweepPeriod is the time in which a process with waiters requests each slot once.
	sweepPeriod = time.Minute
	// shortestPause and longestPause bound the time between two probes.
	shortestPause = 25 * time.Millisecond
	longestPause  = 500 * time.Millisecond
	// maxThrottle limits the pause that a backend may request.
	maxThrottle = time.Minute
)

// pauseAfter returns the pause before the n-th probe (from 0) of another slot. The pause grows from
// shortestPause to the length at which all the given slots are probed once per sweepPeriod. Up to
// half of it is subtracted as jitter: random is from 0 up to 1.
func pauseAfter(n, slots int, random float64) time.Duration {
	pause := min(longestPause, sweepPeriod/time.Duration(max(1, slots)))
	if n < 16 {
		pause = min(pause, shortestPause<<n)
	}
	pause = max(pause, time.Millisecond)
	return pause - time.Duration(random*float64(pause)/2)
}
