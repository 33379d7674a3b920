package node

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/redis/go-redis/v9"
)

const (
	// freshFor is the time for which a connection may be idle and is used again without a look: gateways forget connections, and
	// tell neither end.
	freshFor = time.Second
	// leastLook is the least time for that look, of callers who have little.
	leastLook = 20 * time.Millisecond
)

// link is the way to one server: the pool of a client, as far as this process knows how long its connections were idle.
type link struct {
	client *redis.Client
	fifo   bool // the pool lends the connection that was idle the longest, and else the one that was used last

	mu   sync.Mutex
	idle []time.Time // when each connection was last returned, the latest last
	ill  bool        // the last call has met a server that can't be used
}

// newLink returns nil for a client of several servers, whose operations go by a link for each.
func newLink(client redis.UniversalClient) *link {
	c, ok := client.(*redis.Client)
	if !ok {
		return nil
	}
	return &link{client: c, fifo: c.Options().PoolFIFO}
}

// connectionUse is the state of the connection after a call.
type connectionUse int

const (
	kept    connectionUse = iota // it is in the pool again
	closed                       // the client library has closed it
	useless                      // it is in the pool again, and leads to a server that can't be used
)

// begin has the connection that a call is about to get looked at, if it was idle for long. One that does not answer is
// closed, as are all others that are idle, so that the call has a new connection.
func (l *link) begin(ctx context.Context, d *Node) {
	if l == nil || !l.stale() {
		return
	}
	by, _ := ctx.Deadline()
	left := time.Until(by)
	bounded, cancel := context.WithTimeout(ctx, min(max(left/10, leastLook), time.Second, left/2))
	defer cancel()
	_, err := aside(bounded, d, func(ctx context.Context) (none struct{}, err error) { return none, l.client.Ping(ctx).Err() })
	if answered := redis.Error(nil); err != nil && !errors.As(err, &answered) {
		l.discard(ctx, l.client.PoolStats().IdleConns)
	}
}

// stale takes the next connection from the idle ones, and reports whether it may have been idle for long. Locks mu.
func (l *link) stale() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := len(l.idle)
	if n == 0 { // a new one, or one that only the application has used
		return l.client.PoolStats().IdleConns > 0
	}
	at := n - 1
	if l.fifo {
		at = 0
	}
	since := l.idle[at]
	l.idle = append(l.idle[:at], l.idle[at+1:]...)
	return time.Since(since) > freshFor
}

// end returns the connection of a call. Locks mu.
func (l *link) end(ctx context.Context, use connectionUse) {
	if l == nil {
		return
	}
	l.mu.Lock()
	if use != closed {
		l.idle = append(l.idle, time.Now())
	}
	again := l.ill
	l.ill = use == useless
	l.mu.Unlock()
	switch {
	case use != useless:
	case again: // it was new, or of another caller
		l.discard(ctx, 1)
	default:
		l.discard(ctx, l.client.PoolStats().IdleConns)
	}
}

// discard closes the next connections that the pool has idle. Locks mu.
func (l *link) discard(ctx context.Context, n uint32) {
	for ; n > 0 && l.client.PoolStats().IdleConns > 0; n-- {
		_ = l.client.Process(ctx, redis.NewCmd(ctx, "ping", unsendable{}))
	}
	left := int(l.client.PoolStats().IdleConns)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.idle = l.idle[max(0, len(l.idle)-left):]
}

// unsendable is no argument that go-redis can write, which has it close the connection before anything was sent. It has no
// other way to close one that is idle.
type unsendable struct{}

// useOf derives the state of a call's connection from the call's error.
func useOf(err error) connectionUse {
	if err == nil {
		return kept
	}
	if answered := redis.Error(nil); !errors.As(err, &answered) {
		return closed
	}
	if failure.Elsewhere(err) {
		return useless
	}
	return kept
}
