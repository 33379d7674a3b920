package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
)

// subscribing is how long a node is waited for until its subscription works, before the next one is tried.
const subscribing = 250 * time.Millisecond

// Wait registers with the first server whose subscription works: the queue for a name
// is at one server, which is the same for all processes while they can all reach it.
func (r *Redlock) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	if err := r.meetServers(ctx); err != nil {
		return abstractions.Wakeups{}, err
	}
	k := r.Naming.Keys(req.Name)
	errs := make([]error, len(r.nodes))
	for _, i := range r.servers.all.Load().order {
		waiters, err := r.nodes[i].Waiters, errSilent
		if !r.peers[i].silent.Load() {
			limited, cancel := context.WithTimeout(ctx, subscribing)
			err = waiters.Listen(limited)
			cancel()
		}
		switch {
		case err == nil || waiters.Listening():
			return waiters.Register(ctx, k, req.ID)
		case ctx.Err() != nil:
			return abstractions.Wakeups{}, failure.Of(ctx.Err())
		case errors.Is(err, abstractions.ErrClosed):
			return abstractions.Wakeups{}, abstractions.ErrClosed
		}
		errs[i] = err
	}
	return abstractions.Wakeups{}, r.failed(ctx, errs, true)
}
