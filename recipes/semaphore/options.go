package semaphore

import (
	"fmt"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// MaxPermits bounds Options.Permits. A waiting process has to ask for every slot
// once in a while: split a larger semaphore by a key.
const MaxPermits = 10_000

// Options describe a semaphore.
type Options struct {
	// Name of the semaphore. Required. Its slots are leases called
	// Name/slot/0, Name/slot/1 and so on; metrics and Manager.List with that
	// prefix show them. Use these names for nothing else.
	Name string
	// Permits is how many may be held at a time, by all processes together: 1
	// to MaxPermits. Required. See the package's documentation for processes
	// that disagree.
	Permits int

	// Lease configures the lease of each permit: its TTL, say, or Metadata.
	// Its WaitLimit is how long Acquire and Do wait at most; TryAcquire and TryDo
	// do not wait.
	Lease leasing.AcquireOptions

	// Tries is how many slots TryAcquire asks for at most. With more permits
	// than that it may miss a free one. Default 32.
	Tries int `option:"default=32,min=1"`
	// Watch is how many slots a process with waiters waits for at the backend. A
	// larger number gets a permit sooner after its release, at a cost: see the
	// package's documentation. Default 4.
	Watch int `option:"default=4,min=1"`
	// Sweep is the time in which a process with waiters asks for each slot, if the
	// backend is neither slow nor down. Default 1 min.
	Sweep time.Duration `option:"default=1m,min=1s,max=24h"`
}

func (o Options) complete(c leasing.Capabilities) (Options, error) {
	if err := providerkit.Complete(&o); err != nil {
		return o, err
	}
	switch {
	case o.Permits < 1 || o.Permits > MaxPermits:
		return o, &leasing.InvalidError{Field: "Options.Permits", Value: o.Permits, Want: fmt.Sprintf("1 to %d", MaxPermits)}
	case o.Lease.WaitLimit < 0:
		return o, &leasing.InvalidError{Field: "Options.Lease.WaitLimit", Value: o.Lease.WaitLimit, Want: "0 for no limit, or more; to ask once there is TryAcquire"}
	}
	return o, recipe.ValidateName(o.Name, len(o.slotName(o.Permits-1))-len(o.Name), c)
}

// slotName is the name of a slot's lease. "slot" is a part of its own so that
// no more than one scope of metrics comes of a name without parts.
func (o Options) slotName(slot int) string {
	return o.Name + "/slot/" + strconv.Itoa(slot)
}

const (
	// shortestPause and longestPause bound the time between two probes.
	shortestPause = 25 * time.Millisecond
	longestPause  = 500 * time.Millisecond
	// maxThrottle bounds the pause that a backend may ask for.
	maxThrottle = time.Minute
)

// pause is how long to wait before the n-th probe (from 0) of another slot. It
// grows from shortestPause to a length with which all the given slots are probed
// once in a sweep. Up to a half is taken off: random is from 0 up to 1.
func (o Options) pause(n, slots int, random float64) time.Duration {
	pause := min(longestPause, o.Sweep/time.Duration(max(1, slots)))
	if n < 16 {
		pause = min(pause, shortestPause<<n)
	}
	pause = max(pause, time.Millisecond)
	return pause - time.Duration(random*float64(pause)/2)
}
