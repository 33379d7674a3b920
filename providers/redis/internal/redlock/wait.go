package redlock

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
)

// subscribeTimeout bounds the wait for a node's subscription before the next node is tried.
const subscribeTimeout = 250 * time.Millisecond

// waiter is a waiting claim of this process.
type waiter struct {
	ctx     context.Context // ends its registrations
	req     abstractions.WaitRequest
	wakeups chan struct{} // of all registrations
	at      []bool        // nodes where the claim is registered; guarded by moving
	moving  atomic.Bool
}

// Wait registers with the first server that votes and whose subscription works. The queue of a
// name is at one server, which is the same for all processes while all of them can reach the server.
func (r *Redlock) Wait(ctx context.Context, req abstractions.WaitRequest) (abstractions.Wakeups, error) {
	if err := r.checkServers(ctx); err != nil {
		return abstractions.Wakeups{}, err
	}
	s := &waiter{ctx: ctx, req: req, wakeups: make(chan struct{}, 1), at: make([]bool, len(r.nodes))}
	if _, err := r.queueUp(s); err != nil {
		return abstractions.Wakeups{}, err
	}
	r.waiters.Store(req.ID, s)
	providerkit.AfterFunc(ctx, func() { r.waiters.CompareAndDelete(req.ID, s) })
	return abstractions.Wakeups{C: s.wakeups}, nil
}

// queueUp registers a claim with the first server whose subscription works, and reports whether the registration is new.
func (r *Redlock) queueUp(s *waiter) (fresh bool, err error) {
	errs := make([]error, len(r.nodes))
	for _, i := range r.queueOrder() {
		waiters, err := r.nodes[i].Waiters, errSilent
		if !r.peers[i].silent.Load() {
			limited, cancel := context.WithTimeout(s.ctx, subscribeTimeout)
			err = waiters.Listen(limited)
			cancel()
		}
		switch {
		case (err == nil || waiters.Wakeups.Listening()) && s.at[i]:
			return false, nil
		case err == nil || waiters.Wakeups.Listening():
			err = waiters.RegisterOn(s.ctx, r.Naming.Keys(s.req.Name), s.req, s.wakeups)
			s.at[i] = err == nil
			return true, err
		case s.ctx.Err() != nil:
			return false, failure.Of(s.ctx.Err())
		case errors.Is(err, abstractions.ErrClosed):
			return false, abstractions.ErrClosed
		}
		errs[i] = err
	}
	return false, r.majorityError(s.ctx, errs, true)
}

// move registers a waiting claim at another server as well if new waiters would queue there: they would be served
// before the claim. This happens if the claim's server is dead or casts no vote, or if an earlier server is back.
func (r *Redlock) move(id string) {
	found, waits := r.waiters.Load(id)
	if !waits {
		return
	}
	order := r.queueOrder()
	first := slices.IndexFunc(order, func(i int) bool { return !r.peers[i].silent.Load() })
	if first >= 0 && r.nodes[order[first]].Waiters.PlaceOf(id) != "" {
		return
	}
	s := found.(*waiter)
	if !s.moving.CompareAndSwap(false, true) {
		return
	}
	if !r.background.Start(func() error {
		fresh, err := r.queueUp(s)
		if fresh && err == nil {
			select {
			case s.wakeups <- struct{}{}: // the waiter sends an acquire, which joins the queue
			default:
			}
		}
		return err
	}, func(error) { s.moving.Store(false) }) {
		s.moving.Store(false)
	}
}

// queueOrder lists the nodes in the order in which a waiter tries to register. Nodes in quarantine come last: they cast no
// vote, and so reserve no name for waiters.
func (r *Redlock) queueOrder() []int {
	var quarantined []int
	order := slices.DeleteFunc(slices.Clone(r.servers.all.Load().order), func(i int) bool {
		is := r.nodes[i].Quarantine() > 0
		if is {
			quarantined = append(quarantined, i)
		}
		return is
	})
	return append(order, quarantined...)
}
