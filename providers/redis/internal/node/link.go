package node

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/redis/go-redis/v9"
)

const (
	// maxIdle is the idle time after which a connection is checked before its use: gateways forget idle connections, and
	// notify neither end.
	maxIdle = time.Second
	// minCheck is the shortest timeout of this check, for calls with little time left.
	minCheck = 20 * time.Millisecond
	// maxChecks limits the number of checks for a call. Each takes at most a tenth of the call's time, or minCheck
	// if that is more.
	maxChecks = 3
)

// link is the pool of connections to one server. A pool hands out the connection that was returned last, so the number of
// calls in flight determines which connection a call gets.
type link struct {
	client *redis.Client

	mu       sync.Mutex
	calls    int         // in flight
	used     []time.Time // by the number of other calls: the last use of the connection that a call gets
	unusable bool        // the last call reached a server that can't be used
}

// newLink returns nil for a client of several servers, whose operations use a link per server.
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
	kept         connectionUse = iota // the connection is in the pool again
	closed                            // the client library has closed the connection
	keptUnusable                      // the connection is in the pool again, and leads to a server that can't be used
)

// begin counts a call. If the connection that the call would get has been idle for a while, begin checks a connection, and
// returns one that answers: the call uses it, and closes it before end. If a connection does not answer, begin closes
// all idle connections, and checks another, since PoolStats may count too few. Locks mu.
func (l *link) begin(ctx context.Context, d *Node) *redis.Conn {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	others := l.calls
	l.calls++
	fresh := others < len(l.used) && time.Since(l.used[others]) <= maxIdle
	l.mu.Unlock()
	if fresh || l.client.PoolStats().IdleConns == 0 {
		return nil
	}
	if others > 0 {
		select { // until the others have taken their connections
		case <-ctx.Done():
		case <-time.After(time.Millisecond):
		}
	}
	for range maxChecks {
		if conn, silent := l.check(ctx, d); !silent {
			return conn
		}
	}
	return nil
}

// check returns a connection, idle or new, that has answered. silent reports that there was no answer in time.
func (l *link) check(ctx context.Context, d *Node) (answers *redis.Conn, silent bool) {
	by, _ := ctx.Deadline()
	left := time.Until(by)
	bounded, cancel := context.WithTimeout(ctx, min(max(left/10, minCheck), time.Second, left/2))
	defer cancel()
	conn, ended := l.client.Conn(), atomic.Bool{} // whether the check or its request has ended
	_, err := callDetached(bounded, d, func(ctx context.Context) (none struct{}, err error) {
		err = conn.Ping(ctx).Err()
		if ended.Swap(true) {
			_ = conn.Close() // no goroutine waits for the answer
		}
		return none, err
	})
	switch answered := redis.Error(nil); {
	case err == nil || errors.As(err, &answered):
		return conn, false
	case ended.Swap(true):
		_ = conn.Close()
	}
	l.discard(ctx, l.client.PoolStats().IdleConns)
	return nil, bounded.Err() != nil || errors.Is(err, os.ErrDeadlineExceeded) // the connection's deadline may pass first
}

// end records the end of a call, and closes connections to a server that can't be used. Locks mu.
func (l *link) end(ctx context.Context, use connectionUse) {
	if l == nil {
		return
	}
	l.mu.Lock()
	l.calls--
	others := l.calls
	if use != closed {
		for len(l.used) <= others {
			l.used = append(l.used, time.Time{})
		}
		l.used[others] = time.Now()
	} else if others < len(l.used) {
		l.used = slices.Delete(l.used, others, others+1) // the next call gets the next connection in the pool
	}
	again := l.unusable
	l.unusable = use == keptUnusable
	l.mu.Unlock()
	switch {
	case use != keptUnusable:
	case again: // the connection was new, or another call's
		l.discard(ctx, 1)
	default:
		l.discard(ctx, l.client.PoolStats().IdleConns)
	}
}

// discard closes the next n idle connections of the pool.
func (l *link) discard(ctx context.Context, n uint32) {
	for ; n > 0 && l.client.PoolStats().IdleConns > 0; n-- {
		_ = l.client.Process(ctx, redis.NewCmd(ctx, "ping", unsendable{}))
	}
}

// unsendable is an argument that go-redis can't write, so it closes the connection before it sends anything. go-redis has
// no other way to close an idle connection.
type unsendable struct{}

// useOf derives the state of a call's connection from the call's error.
func useOf(err error) connectionUse {
	if err == nil {
		return kept
	}
	if answered := redis.Error(nil); !errors.As(err, &answered) {
		return closed
	}
	if failure.MustReconnect(err) {
		return keptUnusable
	}
	return kept
}
