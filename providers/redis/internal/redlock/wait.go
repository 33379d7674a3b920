package redlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
)

// subscribing is how long a node is waited for until its subscription works, before the next one is tried.
const subscribing = 250 * time.Millisecond

// Wait registers with the first server that votes and whose subscription works: the queue for a
// name is at one server, which is the same for all processes while they can all reach it.
func (r *Redlock) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	if err := r.meetServers(ctx); err != nil {
		return abstractions.Wakeups{}, err
	}
	k := r.Naming.Keys(req.Name)
	errs := make([]error, len(r.nodes))
	for _, i := range r.queueOrder() {
		waiters, err := r.nodes[i].Waiters, errSilent
		if !r.peers[i].silent.Load() {
			limited, cancel := context.WithTimeout(ctx, subscribing)
			err = waiters.Listen(limited)
			cancel()
		}
		switch {
		case err == nil || waiters.Hints.Listening():
			return waiters.Register(ctx, k, req)
		case ctx.Err() != nil:
			return abstractions.Wakeups{}, failure.Of(ctx.Err())
		case errors.Is(err, abstractions.ErrClosed):
			return abstractions.Wakeups{}, abstractions.ErrClosed
		}
		errs[i] = err
	}
	return abstractions.Wakeups{}, r.failed(ctx, errs, true)
}

// queueOrder are the nodes in the order in which a waiter tries them. One in quarantine casts no
// vote, and so keeps no name for those who wait.
func (r *Redlock) queueOrder() []int {
	var mute []int
	order := slices.DeleteFunc(slices.Clone(r.servers.all.Load().order), func(i int) bool {
		is := r.nodes[i].Quarantine() > 0
		if is {
			mute = append(mute, i)
		}
		return is
	})
	return append(order, mute...)
}
