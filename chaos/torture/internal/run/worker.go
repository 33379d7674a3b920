package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/check"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// worker competes for leases. It has its own client, and uses one manager after another
// on this client, like a service that is restarted.
type worker struct {
	*client
	index        int
	options      Options
	names        []string
	resource     resource
	random       *rand.Rand
	waits        atomic.Int64
	closed       *atomic.Bool                 // the current manager is closed
	usedInfinite bool                         // the worker has used an infinite lease
	mu           sync.Mutex                   // guards past
	past         []weak.Pointer[holdRecorder] // the holds of the current manager's leases
}

func newWorker(index int, options Options, names []string, client *client, resource resource) *worker {
	return &worker{client: client, index: index, options: options, names: names, resource: resource, random: newRandom(options.Seed, uint64(index))}
}

// newRandom returns a source of random numbers that is safe for concurrent use.
func newRandom(seed, stream uint64) *rand.Rand {
	return rand.New(&lockedSource{Source: rand.NewPCG(seed, stream)})
}

type lockedSource struct {
	mu sync.Mutex
	rand.Source
}

func (s *lockedSource) Uint64() uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.Source.Uint64()
}

// jitter is the source of a manager's random choices. It depends on the time, and not on the order in
// which goroutines call it at that time.
func (w *worker) jitter() float64 {
	return rand.New(rand.NewPCG(w.options.Seed+uint64(w.index), uint64(w.clock.now()))).Float64()
}

func (w *worker) label() string { return fmt.Sprintf("%p", w) }

// rarely returns the probability of an action that takes about as long as a lease. The
// probability falls as Options.Intensity rises.
func (w *worker) rarely(probability float64) float64 { return probability / w.options.Intensity }

// between returns a random time between two fractions of the TTL.
func (w *worker) between(low, high float64) time.Duration {
	return time.Duration((low + (high-low)*w.random.Float64()) * float64(w.options.TTL))
}

// shortTime returns a random duration between low and high. Both are divided by Options.Intensity, and
// scaled down for a TTL under 2 s.
func (w *worker) shortTime(low, high time.Duration) time.Duration {
	scale := min(1, w.options.TTL.Seconds()/2) / w.options.Intensity
	return time.Duration(scale * (float64(low) + w.random.Float64()*float64(high-low)))
}

// beginWait records a wait, and returns its context and a function that records its end.
func (w *worker) beginWait(ctx context.Context, name string, try bool, limit, leaves time.Duration) (waits context.Context, end func(got bool, err error)) {
	one := history.Wait{Worker: w.index, Number: int(w.waits.Add(1)), Name: name, Try: try, From: w.clock.now()}
	switch {
	case try:
		one.Bound = one.From + w.options.Manager.Tuning.RequestTimeout
	case limit > 0:
		one.Bound = one.From + limit
	}
	if leaves > 0 {
		one.Bound, one.Leaves = one.From+leaves, true
	}
	w.journal.Enter(one)
	return context.WithValue(ctx, waitKey{}, one.Number), func(got bool, err error) {
		one.To, one.Got, one.Result = w.clock.now(), got, history.ResultOf(err)
		if held, is := errors.AsType[*leasing.HeldError](err); is {
			one.Holder, one.Own = held.Holder.Fingerprint.String(), held.ByThisManager
		}
		w.journal.Enter(one)
	}
}

// recordAnswer records the result of a call that a holder made on its lease.
func (w *worker) recordAnswer(ctx context.Context, one history.Answer, l *leasing.Lease, err error) {
	one.Worker, one.Name, one.Claim, one.Return, one.Result = w.index, l.Name(), claimOf(l.ID()), w.clock.now(), endOf(err)
	one.Cut = errors.Is(ctx.Err(), context.Canceled)
	if deadline, ok := ctx.Deadline(); ok {
		one.Bound = w.clock.at(deadline)
		one.Cut = one.Cut || one.Return >= one.Bound
	}
	one.Unclear = one.Result == history.ResultUnknown && !one.Cut && !errors.Is(err, leasing.ErrUnavailable)
	w.journal.Enter(one)
}

// violation records a violation that no check of the history would find.
func (w *worker) violation(check history.Check, format string, args ...any) {
	w.journal.Enter(history.Violation{Check: check, At: w.clock.now(), Text: fmt.Sprintf(format, args...)})
}

// close closes the current manager. When it returns, all events have been delivered.
func (w *worker) close(ctx context.Context, manager *leasing.Manager) error {
	defer w.closed.Store(true)
	one := history.Answer{Worker: w.index, Verb: "closed", Call: w.clock.now()}
	err := manager.Close(ctx)
	one.Return, one.Result = w.clock.now(), history.ResultOf(err)
	w.journal.Enter(one)
	return err
}

// closeWithoutDeadline closes the current manager without a deadline, while a holder does not
// release its lease. Close must return when all leases have run out.
func (w *worker) closeWithoutDeadline(manager *leasing.Manager) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	bound := w.options.TTL + 4*w.options.Manager.Tuning.RequestTimeout + check.Grace + w.options.Patience
	defer time.AfterFunc(bound, func() {
		w.violation(history.CheckClose, "worker %d closed its manager, which waits for longer than %s", w.index, history.Seconds(bound))
		cancel()
	}).Stop()
	_ = w.close(ctx, manager)
}

// checkClosed records a violation if a manager did not wait for the holders of its leases, or did not cancel
// their contexts.
func (w *worker) checkClosed(err error) {
	var left *leasing.CloseError
	if errors.As(err, &left) && len(left.InUse) > 0 || errors.Is(err, context.DeadlineExceeded) {
		w.violation(history.CheckClose, "worker %d, whose holders release when their contexts end, closed its manager: %v", w.index, err)
	}
}
