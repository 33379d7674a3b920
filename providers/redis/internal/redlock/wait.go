package redlock

import (
	"context"
	"errors"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
)

const (
	// subscribing is how long a node is waited for until its subscription works,
	// before the next one is tried.
	subscribing = 250 * time.Millisecond
	// deafness is for how long it is not waited for after that.
	deafness = 5 * time.Second
)

// Wait registers with the first server whose subscription works: the queue for a name
// is at one server, which is the same for all processes while they can all reach it.
func (r *Redlock) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	if err := r.meetServers(ctx); err != nil {
		return abstractions.Wakeups{}, err
	}
	k := r.Naming.Keys(req.Name)
	var errs []error
	for _, i := range r.inOrder() {
		err := r.listens(ctx, i)
		if err == nil {
			return r.nodes[i].Waiters.Register(ctx, k, req.ID)
		}
		errs = append(errs, err)
		if errors.Is(err, abstractions.ErrClosed) {
			return abstractions.Wakeups{}, abstractions.ErrClosed
		}
		if ctx.Err() != nil {
			return abstractions.Wakeups{}, failure.Of(ctx.Err())
		}
	}
	return abstractions.Wakeups{}, &nodesError{errs: errs}
}

// listens waits for a node's subscription, unless that was in vain a short while ago.
func (r *Redlock) listens(ctx context.Context, i int) error {
	p, waiters := &r.peers[i], r.nodes[i].Waiters
	if waiters.Listening() {
		return nil
	}
	if now := int64(time.Since(r.began)); now < p.deaf.Load() {
		return r.label(i, errSilent)
	}
	limited, cancel := context.WithTimeout(ctx, subscribing)
	defer cancel()
	err := waiters.Listen(limited)
	if err != nil && ctx.Err() == nil {
		p.deaf.Store(int64(time.Since(r.began) + deafness))
	}
	return err
}
