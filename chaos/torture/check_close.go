package torture

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing"
)

// closeAtWork closes a manager while a lease of it is in use, whose holder releases it as soon
// as it is told to. The manager waits for that, and takes no new work.
func (w *worker) closeAtWork(ctx context.Context, manager leasing.Manager) {
	name, use := w.names[w.random.IntN(len(w.names))], usage{hold: 20 * w.options.TTL, ttl: w.options.TTL, do: w.random.Float64() < 0.5}
	if use.do {
		use.lingers = w.between(0.1, 1)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.attempt(ctx, manager, name, use)
	}()
	pause(ctx, w.between(0.1, 1.5))
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.closeTimeout())
	defer cancel()
	closing := word{Worker: w.index, Verb: "close", Call: w.clock.now()}
	w.checkClosed(w.close(bound, manager))
	closing.Return = w.clock.now()
	w.journal.enter(closing)
	if _, err := manager.TryAcquire(bound, name, nil); !errors.Is(err, leasing.ErrClosed) {
		w.journal.enter(Violation{Check: checkClose, At: w.clock.now(), Text: fmt.Sprintf("a manager of worker %d that is closed was asked for a lease, and said: %v", w.index, err)})
	}
	<-ended
}

// close closes the present manager. All that there is to tell has been told then.
func (w *worker) close(ctx context.Context, manager leasing.Manager) error {
	defer w.closed.Store(true)
	return manager.Close(ctx)
}

// checkClosed finds that a manager did not wait for the holders of its leases, or did not tell them.
func (w *worker) checkClosed(err error) {
	var left *leasing.CloseError
	if errors.As(err, &left) && len(left.InUse) > 0 || errors.Is(err, context.DeadlineExceeded) {
		w.journal.enter(Violation{Check: checkClose, At: w.clock.now(), Text: fmt.Sprintf("worker %d, whose holders release when they are told to, closed its manager: %v", w.index, err)})
	}
}
