package redislease

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

const (
	// subscribing is how long a node is waited for until its subscription works,
	// before the next one is tried.
	subscribing = 250 * time.Millisecond
	// deafness is for how long it is not waited for after that.
	deafness = 5 * time.Second
)

// wait registers with the first server whose subscription works: the queue for a name
// is at one server, which is the same for all processes while they can all reach it.
func (r *redlock) wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	if err := r.meetServers(ctx); err != nil {
		return abstractions.Wakeups{}, err
	}
	k := r.naming.keys(req.Name)
	var errs []error
	for _, i := range r.inOrder() {
		err := r.listens(ctx, i)
		if err == nil {
			return r.nodes[i].waiters.register(ctx, k, req.ID)
		}
		errs = append(errs, err)
		if errors.Is(err, abstractions.ErrClosed) {
			return abstractions.Wakeups{}, abstractions.ErrClosed
		}
		if ctx.Err() != nil {
			return abstractions.Wakeups{}, failure(ctx.Err())
		}
	}
	return abstractions.Wakeups{}, &nodesError{errs: errs}
}

// listens waits for a node's subscription, unless that was in vain a short while ago.
func (r *redlock) listens(ctx context.Context, i int) error {
	p, subscription := &r.peers[i], &r.nodes[i].waiters.subscription
	if subscription.live.Load() {
		return nil
	}
	if now := int64(time.Since(r.began)); now < p.deaf.Load() {
		return r.label(i, errSilent)
	}
	limited, cancel := context.WithTimeout(ctx, subscribing)
	defer cancel()
	err := subscription.wait(limited)
	if err != nil && ctx.Err() == nil {
		p.deaf.Store(int64(time.Since(r.began) + deafness))
	}
	return err
}
