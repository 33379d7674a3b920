package providerkit

import (
	"math"
	"sync"
	"sync/atomic"
)

// calls counts the calls under way, and refuses more after close. It takes no lock:
// a provider in memory makes millions of calls a second.
type calls struct {
	n    atomic.Int64  // under way, plus closing after close
	idle chan struct{} // closed when none is under way after close
	once sync.Once
}

const closing = math.MinInt64 / 2

// begin reports whether a call may begin, which then must end.
func (c *calls) begin() bool {
	if c.n.Add(1) > 0 {
		return true
	}
	c.end()
	return false
}

func (c *calls) end() {
	if c.n.Add(-1) == closing {
		c.once.Do(func() { close(c.idle) })
	}
}

// close refuses calls from now on. It reports false if that was so already.
func (c *calls) close() bool {
	for {
		n := c.n.Load()
		if n < 0 {
			return false
		}
		if c.n.CompareAndSwap(n, n+closing+1) {
			c.end() // closes idle if nothing is under way
			return true
		}
	}
}

// underWay is how many calls have not ended after close.
func (c *calls) underWay() int64 { return c.n.Load() - closing }
