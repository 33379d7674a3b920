package node

import (
	"context"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/redis/go-redis/v9"
)

// Background owns the work that continues after a call has returned: late answers, and requests
// that send nodes the outcome. All of it is bounded in time.
type Background struct {
	mu     sync.Mutex
	closed bool
	All    providerkit.Group
}

// Start runs a function in the background, and then calls ended with the function's error. ended may be nil.
// After Close it returns false.
func (a *Background) Start(run func() error, ended func(error)) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	a.All.Go(run, ended)
	return true
}

// Close waits for the functions that were started.
func (a *Background) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.All.Wait()
}

// callDetached sends a request that is not a script. It returns when ctx ends, even if the
// application's client ignores deadlines; no client obeys a cancellation. The
// request then continues for as long as the client lets it, and Close waits for the
// request. ctx needs a deadline.
func callDetached[T any](ctx context.Context, d *Node, request func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	if ctx.Err() != nil {
		return none, failure.Of(ctx.Err())
	}
	done := make(chan answer, 1)
	var a answer
	if !d.background.Start(func() (err error) {
		a.value, err = request(ctx)
		return err
	}, func(err error) {
		a.err = err
		done <- a
	}) {
		return none, abstractions.ErrClosed
	}
	select {
	case a := <-done:
		return a.value, failure.Of(a.err)
	case <-ctx.Done():
		return none, failure.Of(ctx.Err())
	}
}

// Ping sends a PING to the server, or to each master of a Cluster.
func (d *Node) Ping(ctx context.Context) error {
	_, err := callDetached(ctx, d, func(ctx context.Context) (none struct{}, err error) {
		if d.cluster == nil {
			return none, d.clientError(d.Client.Ping(ctx).Err())
		}
		return none, d.cluster.ForEachMaster(ctx, func(ctx context.Context, master *redis.Client) error {
			return master.Ping(ctx).Err()
		})
	})
	return err
}
