package redislease

import (
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
)

const (
	// minTTL is some round trips of a network and a pause of Go's collector,
	// with time left to renew. Redis itself would go down to a millisecond.
	minTTL = 100 * time.Millisecond
	// redlockMinTTL has room for the two rounds of an acquire, of which each may
	// wait for a server that is slow.
	redlockMinTTL = 200 * time.Millisecond
)

// capabilitiesOf are those of a mode; longest is Options.MaxTTL.
func capabilitiesOf(mode Mode, longest time.Duration) abstractions.Capabilities {
	c := abstractions.Capabilities{
		Provider:       "redis",
		MinTTL:         minTTL,
		MaxTTL:         script.MaxTTL,
		Granularity:    time.Millisecond, // of PEXPIRE
		Infinite:       true,
		Clock:          "the Redis server's clock",
		Lateness:       abstractions.Lateness{Fixed: time.Millisecond},
		RemainingKnown: true,
		Queues:         true,
		HeedsContext:   true, // calls of the client that may not are made in goroutines of our own
	}
	switch mode {
	case Cluster:
		c.Provider = "redis-cluster"
		c.Clock = "the clock of the Redis server that has the name"
	case Redlock:
		c.Provider = "redlock"
		c.Clock = "the clocks of the Redis servers"
		c.MinTTL, c.MaxTTL = redlockMinTTL, longest.Truncate(c.Granularity)
		c.Infinite = false // a server that has lost its data stays out for MaxTTL only
	}
	return c
}
