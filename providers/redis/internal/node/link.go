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
	// freshFor is the pause after which a connection is looked at before its use: gateways forget idle connections, and tell
	// neither end.
	freshFor = time.Second
	// leastLook is the least time for that look, of callers who have little.
	leastLook = 20 * time.Millisecond
)

// link is the way to one server: the pool of a client. It knows for how long this process has sent nothing.
type link struct {
	client *redis.Client

	mu      sync.Mutex
	calls   int           // under way
	last    time.Time     // when the latest call ended
	looking chan struct{} // closed at the end of the look under way; nil without one
	ill     bool          // the last call has met a server that can't be used
}

// newLink returns nil for a client of several servers, whose operations go by a link for each.
func newLink(client redis.UniversalClient) *link {
	c, ok := client.(*redis.Client)
	if !ok {
		return nil
	}
	return &link{client: c}
}

// connectionUse is the state of the connection after a call.
type connectionUse int

const (
	kept    connectionUse = iota // it is in the pool again
	closed                       // the client library has closed it
	useless                      // it is in the pool again, and leads to a server that can't be used
)

// begin counts a call. The first call after a pause looks at an idle connection, and calls that come meanwhile wait for
// the look. If the connection does not answer, all idle ones are closed, so that the calls have new connections. Locks mu.
func (l *link) begin(ctx context.Context, d *Node) {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	defer func() { l.calls++ }()
	for l.looking != nil {
		looked := l.looking
		l.mu.Unlock()
		select {
		case <-looked:
		case <-ctx.Done():
		}
		l.mu.Lock()
		if ctx.Err() != nil {
			return
		}
	}
	if l.calls > 0 || time.Since(l.last) <= freshFor || l.client.PoolStats().IdleConns == 0 {
		return
	}
	l.looking = make(chan struct{})
	l.mu.Unlock()
	l.look(ctx, d)
	l.mu.Lock()
	close(l.looking)
	l.looking = nil
}

func (l *link) look(ctx context.Context, d *Node) {
	by, _ := ctx.Deadline()
	left := time.Until(by)
	bounded, cancel := context.WithTimeout(ctx, min(max(left/10, leastLook), time.Second, left/2))
	defer cancel()
	_, err := aside(bounded, d, func(ctx context.Context) (none struct{}, err error) { return none, l.client.Ping(ctx).Err() })
	if answered := redis.Error(nil); err != nil && !errors.As(err, &answered) {
		l.discard(ctx, l.client.PoolStats().IdleConns)
	}
}

// end notes the end of a call, and closes connections that lead to a server of no use. Locks mu.
func (l *link) end(ctx context.Context, use connectionUse) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.calls--
	l.last = time.Now()
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

// discard closes the next connections that the pool has idle.
func (l *link) discard(ctx context.Context, n uint32) {
	for ; n > 0 && l.client.PoolStats().IdleConns > 0; n-- {
		_ = l.client.Process(ctx, redis.NewCmd(ctx, "ping", unsendable{}))
	}
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
