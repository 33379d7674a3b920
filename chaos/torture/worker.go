package torture

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
)

// worker is a competitor for leases. It has its own client, and uses one manager after
// another on this client, like a service that is restarted.
type worker struct {
	*client
	index    int
	options  Options
	names    []string
	resource resource
	random   *rand.Rand
	waits    atomic.Int64
	closed   *atomic.Bool                 // the current manager is closed
	endless  bool                         // it has used a lease without an end
	mu       sync.Mutex                   // guards past
	past     []weak.Pointer[holdRecorder] // of the current manager's leases
}

func newWorker(index int, options Options, names []string, client *client, resource resource) *worker {
	return &worker{client: client, index: index, options: options, names: names, resource: resource, random: chance(options.Seed, uint64(index))}
}

// chance is a source of random numbers for several goroutines.
func chance(seed, stream uint64) *rand.Rand {
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

// jitter is the source of a manager's random choices. It depends on the time, and not on the order of
// the goroutines that call it at that time.
func (w *worker) jitter() float64 {
	return rand.New(rand.NewPCG(w.options.Seed+uint64(w.index), uint64(w.clock.now()))).Float64()
}

func owner(index int) string { return fmt.Sprint("worker-", index) }

// run competes until ctx ends, and returns when all leases are released and the manager is
// closed. It does not close the client. Failures during the run are in the history and not in the error.
func (w *worker) run(ctx context.Context) (err error) {
	for ctx.Err() == nil && err == nil {
		err = labelled(ctx, managerLabel, w.label(), w.useManager)
	}
	return err
}

// useManager competes with one manager. When ctx ends it closes the manager in order. In a
// crash the manager is closed during a hold, and leaves its lease to run out.
func (w *worker) useManager(ctx context.Context) error {
	options := w.options.Manager
	options.Owner = owner(w.index)
	options.Tuning.Random = w.jitter
	manager, err := leasing.NewManager(w.lender, options)
	if err != nil {
		return err
	}
	w.closed = new(atomic.Bool)
	closed := w.closed
	manager.Subscribe(func(leasing.Event) {
		w.journal.enter(Violation{Check: checkEvents, At: w.clock.now(), Text: fmt.Sprintf("an observer of worker %d was called after it had unsubscribed", w.index)})
	})()
	manager.Subscribe(func(e leasing.Event) {
		if w.index == 1 && e.Kind == leasing.EventAcquired {
			panic("an observer, which does no harm")
		}
	})
	manager.Subscribe(func(e leasing.Event) {
		if closed.Load() && e.Kind != leasing.EventReleased { // a release by the holder may outlast a Close whose context ended
			w.journal.enter(Violation{Check: checkClose, At: w.clock.now(), Text: fmt.Sprintf("an observer of worker %d was called after the end of the manager", w.index)})
		}
		tell(w.journal, w.clock, w.index, e, false)
	})
	w.past = nil
	for ctx.Err() == nil {
		if crashed := w.compete(ctx, manager); crashed {
			return nil
		}
	}
	if w.options.Repeatable { // a Close would send a random part of the pending clean-ups
		pause(context.WithoutCancel(ctx), 2*w.options.TTL)
	}
	w.checkMemory()
	w.checkManager()
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.closeTimeout())
	defer cancel()
	w.checkClosed(w.close(bound, manager)) // leases that it could not release run out: see awaitFree
	return nil
}

// compete makes one attempt to acquire and use a name, and sometimes several attempts.
func (w *worker) compete(ctx context.Context, manager *leasing.Manager) (crashed bool) {
	pause(ctx, w.brief(0, 240*time.Millisecond))
	switch {
	case ctx.Err() != nil:
		return false
	case w.random.Float64() < w.rarely(0.015) && !w.options.Repeatable: // the order in which several goroutines draw random numbers varies
		several := w.random.Perm(len(w.names))[:min(3, len(w.names))] // they are renewed in batches
		w.together(ctx, manager, several, w.between(0.9, 1.6))
		return false
	case w.random.Float64() < w.rarely(0.015) && !w.options.Repeatable && !w.endless: // without an end, a lease whose release was cut off would never run out
		w.closeAtWork(ctx, manager)
		return true
	case w.random.Float64() < 0.1 && w.index == 0 && !w.options.Repeatable:
		w.operate(w.names[0])
		return false
	case w.random.Float64() < 0.03 && !w.options.Repeatable:
		one := w.random.IntN(len(w.names)) // two wait in the manager
		w.together(ctx, manager, []int{one, one, one}, w.brief(4*time.Millisecond, 100*time.Millisecond))
		return false
	}
	return w.attempt(ctx, manager, w.names[w.random.IntN(len(w.names))], w.usage())
}

// queueing is the time from one waiter of a manager to the next, so that the order of their arrival is known.
const queueing = 20 * time.Millisecond

// together acquires several names at once, and holds each for a while.
func (w *worker) together(ctx context.Context, manager *leasing.Manager, names []int, hold time.Duration) {
	var all sync.WaitGroup
	for n, i := range names {
		all.Go(func() {
			if n > 0 && names[n-1] == i { // the waiters arrive one after the other
				pause(ctx, time.Duration(n)*queueing)
			}
			w.attempt(ctx, manager, w.names[i], usage{hold: hold, ttl: w.options.TTL})
		})
	}
	all.Wait()
}

// attempt makes one attempt to acquire and use a name.
func (w *worker) attempt(ctx context.Context, manager *leasing.Manager, name string, usage usage) (crashed bool) {
	h := &holdRecorder{clock: w.clock, journal: w.journal, hold: hold{Worker: w.index, Name: name, Renews: !usage.forgetful && usage.most == 0, Most: usage.most}}
	options := &leasing.AcquireOptions{
		TTL: usage.ttl, Observer: h.observe, NoAutoRenew: usage.forgetful, MaxRenewals: usage.most, Metadata: usage.metadata.values(),
	}
	if !usage.try {
		options.WaitLimit = w.waitLimit()
	}
	leaves := time.Duration(0)
	if !usage.try && !usage.do && !w.options.Repeatable && w.random.Float64() < 0.2 {
		leaves = min(w.between(0.01, 0.5), options.WaitLimit/2)
	}
	ctx, back := w.waiting(ctx, name, usage.try, options.WaitLimit, leaves)
	var l *leasing.Lease
	var failed error
	work := func(work context.Context, lease *leasing.Lease) error {
		back(true, nil)
		l = lease
		h.begin(l)
		w.held.Store(l.ID(), h)
		w.mu.Lock()
		w.past = append(w.past, weak.Make(h))
		w.mu.Unlock()
		if usage.do {
			h.working.Store(true)
			defer h.working.Store(false)
		}
		clear(options.Metadata) // a manager keeps its own copy
		crashed = w.hold(work, ctx, manager, l, h, usage)
		return nil
	}
	if usage.do {
		caller, leave := context.WithCancel(ctx)
		defer leave()
		usage.leave = leave
		var returned time.Duration
		err := manager.With(*options).Do(caller, name, func(ctx context.Context, lease *leasing.Lease) error {
			err := work(ctx, lease)
			returned = w.clock.now()
			return err
		})
		if failed = err; l != nil {
			w.heard(caller, word{Verb: "do", Call: returned}, l, err)
		}
	} else {
		acquire := manager.With(*options).Acquire
		if usage.try {
			acquire = manager.With(*options).TryAcquire
		}
		wait, leave := context.WithCancel(ctx)
		defer leave()
		if leaves > 0 {
			defer time.AfterFunc(leaves, leave).Stop()
		}
		lease, err := acquire(wait, name)
		if !w.options.Repeatable { // the receiver of its wake-up is random if both come in one instant
			leave() // this ends no lease
		}
		if failed = err; err == nil {
			_ = work(lease.Context(), lease)
		}
	}
	switch {
	case l == nil:
		back(false, failed)
		return false
	case !crashed && !usage.do:
		w.release(ctx, l, usage)
	}
	w.held.Delete(l.ID())
	return crashed
}

// waiting enters a wait, and returns its context and a function that enters its end.
func (w *worker) waiting(ctx context.Context, name string, try bool, limit, leaves time.Duration) (waits context.Context, back func(got bool, err error)) {
	one := wait{Worker: w.index, Number: int(w.waits.Add(1)), Name: name, Try: try, From: w.clock.now()}
	switch {
	case try:
		one.Bound = one.From + w.options.Manager.Tuning.RequestTimeout
	case limit > 0:
		one.Bound = one.From + limit
	}
	if leaves > 0 {
		one.Bound, one.Leaves = one.From+leaves, true
	}
	w.journal.enter(one)
	return context.WithValue(ctx, waitKey{}, one.Number), func(got bool, err error) {
		one.To, one.Got, one.Result = w.clock.now(), got, resultOf(err)
		if held, is := errors.AsType[*leasing.HeldError](err); is {
			one.Holder, one.Own = held.Holder.Fingerprint.String(), held.ByThisManager
		}
		w.journal.enter(one)
	}
}
