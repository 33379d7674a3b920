package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
)

// claims are those that this process asks for at the moment, by all of its providers. The attempts of a
// claim take turns: what the one would take back, since no majority of it is left, the other may be counting.
// No other process asks for the same claim, since IDs are random.
type claims struct {
	mu       sync.Mutex
	underWay map[claimKey]chan struct{} // closed at the end of the attempt
	tries    int64
}

type claimKey struct{ name, id string } // the name's key

// attempts begin to count at the clock, so that a copy of an attempt that an earlier process has made is not taken for one of this.
var attempts = claims{underWay: map[claimKey]chan struct{}{}, tries: time.Now().UnixMicro()}

// enter waits for the claim's turn, and returns the number of its attempt: greater than those before. Locks mu.
func (c *claims) enter(ctx context.Context, k claimKey) (try int64, err error) {
	for {
		c.mu.Lock()
		other := c.underWay[k]
		if other == nil {
			c.underWay[k] = make(chan struct{})
			c.tries++
			try = c.tries
			c.mu.Unlock()
			return try, nil
		}
		c.mu.Unlock()
		select {
		case <-other:
		case <-ctx.Done():
			return 0, failure.Of(ctx.Err())
		}
	}
}

// leave ends the turn. Locks mu.
func (c *claims) leave(k claimKey) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(c.underWay[k])
	delete(c.underWay, k)
}
