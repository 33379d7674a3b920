package torture

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// closeAtWork closes a manager while one of its leases is in use. The holder releases the lease
// as soon as its context ends. The manager waits for the release, and accepts no new work.
func (w *worker) closeAtWork(ctx context.Context, manager *leasing.Manager) {
	name, use := w.names[w.random.IntN(len(w.names))], usage{hold: 20 * w.options.TTL, ttl: w.options.TTL, do: w.random.Float64() < 0.5}
	if use.do {
		use.lingers = w.between(0.1, 1)
	}
	var all sync.WaitGroup
	all.Go(func() { w.attempt(ctx, manager, name, use) })
	all.Go(func() { // waits for the lease
		pause(ctx, queueing)
		w.attempt(ctx, manager, name, usage{ttl: w.options.TTL})
	})
	pause(ctx, w.between(0.1, 1.5))
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.closeTimeout())
	defer cancel()
	closing := word{Worker: w.index, Verb: "close", Call: w.clock.now()}
	w.checkClosed(w.close(bound, manager))
	closing.Return = w.clock.now()
	w.journal.enter(closing)
	if _, err := manager.TryAcquire(bound, name); !errors.Is(err, leasing.ErrClosed) {
		w.journal.enter(Violation{Check: checkClose, At: w.clock.now(), Text: fmt.Sprintf("a manager of worker %d that is closed was asked for a lease, and said: %v", w.index, err)})
	}
	all.Wait()
}

// close closes the current manager. When it returns, all events have been delivered.
func (w *worker) close(ctx context.Context, manager *leasing.Manager) error {
	defer w.closed.Store(true)
	one := word{Worker: w.index, Verb: "closed", Call: w.clock.now()}
	err := manager.Close(ctx)
	one.Return, one.Result = w.clock.now(), resultOf(err)
	w.journal.enter(one)
	return err
}

// closePatiently closes the current manager, with a lease that is never released, and without a
// deadline. Close must return when all leases have run out.
func (w *worker) closePatiently(manager *leasing.Manager) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bound := w.options.TTL + 4*w.options.Manager.Tuning.RequestTimeout + grace + w.options.Patience
	defer time.AfterFunc(bound, func() {
		w.journal.enter(Violation{Check: checkClose, At: w.clock.now(), Text: fmt.Sprintf("worker %d closed its manager, which waits for longer than %s", w.index, seconds(bound))})
		cancel()
	}).Stop()
	_ = w.close(ctx, manager)
}

// unanswered finds a claim whose release was not answered, although Close of its manager
// reported success.
func (n *named) unanswered() {
	since := map[int]time.Duration{} // the end of a worker's previous manager
	for _, w := range n.h.Words {
		if w.Verb != "closed" {
			continue
		}
		for id, c := range n.claims {
			if w.Result != resultDone || len(c.asked) == 0 || c.asked[0].Worker != w.Worker || c.asked[0].Call < since[w.Worker] || c.asked[0].Call > w.Call {
				continue
			}
			if until, unheard := c.unheard(); unheard && until > w.Return+n.Patience {
				n.violated(w.Return, "worker %d closed its manager, which says nothing of claim %s, whose release was not answered", w.Worker, id)
			}
		}
		since[w.Worker] = w.Return
	}
}

// unheard reports whether a claim's release was never answered, and returns the latest time at
// which its lease runs out.
func (c *claim) unheard() (until time.Duration, unheard bool) {
	for _, o := range c.asked {
		switch {
		case o.Verb != "release" && (o.Result == resultDone || o.Result == resultUnknown):
			until, unheard = after(o.Call, o.TTL, 0), false
		case o.Verb == "release" && (o.Result == resultUnknown || o.Pause > 0):
			unheard = true
		default: // the claim has ended, or was never granted
			return 0, false
		}
	}
	return until, unheard
}

// checkClosed finds a manager that did not wait for the holders of its leases, or did not cancel their contexts.
func (w *worker) checkClosed(err error) {
	var left *leasing.CloseError
	if errors.As(err, &left) && len(left.InUse) > 0 || errors.Is(err, context.DeadlineExceeded) {
		w.journal.enter(Violation{Check: checkClose, At: w.clock.now(), Text: fmt.Sprintf("worker %d, whose holders release when they are told to, closed its manager: %v", w.index, err)})
	}
}
