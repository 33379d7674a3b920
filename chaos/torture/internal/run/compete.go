package run

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// run competes for leases until ctx ends, and returns when all leases are released and the manager is
// closed. It does not close the client. Failures during the run are recorded in the history, and not
// returned.
func (w *worker) run(ctx context.Context) (err error) {
	for ctx.Err() == nil && err == nil {
		err = runLabelled(ctx, managerLabel, w.label(), w.useManager)
	}
	return err
}

// useManager competes for leases with one manager, and closes the manager when ctx ends.
// In a simulated crash it closes the manager during a hold, so that the lease runs out.
func (w *worker) useManager(ctx context.Context) error {
	options := w.options.Manager
	options.Owner = owner(w.index)
	options.Tuning.Random = w.jitter
	manager, err := leasing.NewManager(w.states, options)
	if err != nil {
		return err
	}
	w.closed = new(atomic.Bool)
	closed := w.closed
	manager.Subscribe(func(leasing.Event) {
		w.violation(history.CheckEvents, "an observer of worker %d was called after it had unsubscribed", w.index)
	})()
	manager.Subscribe(func(e leasing.Event) {
		if w.index == 1 && e.Kind == leasing.EventAcquired {
			panic("an observer, which does no harm")
		}
	})
	manager.Subscribe(func(e leasing.Event) {
		if closed.Load() && e.Kind != leasing.EventReleased { // a release by the holder may outlast a Close whose context ended
			w.violation(history.CheckClose, "an observer of worker %d was called after the end of the manager", w.index)
		}
		recordEvent(w.journal, w.clock, w.index, e, false)
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
	w.checkClosed(w.close(bound, manager)) // leases that the manager could not release run out: see awaitFree
	return nil
}

// compete makes one attempt to acquire and use a name, or sometimes several attempts.
func (w *worker) compete(ctx context.Context, manager *leasing.Manager) (crashed bool) {
	pause(ctx, w.shortTime(0, 240*time.Millisecond))
	switch {
	case ctx.Err() != nil:
		return false
	case w.random.Float64() < w.rarely(0.015) && !w.options.Repeatable: // not in a repeatable run, since the order in which goroutines draw random numbers varies
		several := w.random.Perm(len(w.names))[:min(3, len(w.names))] // they are renewed in batches
		w.attemptTogether(ctx, manager, several, w.between(0.9, 1.6))
		return false
	case w.random.Float64() < w.rarely(0.015) && !w.options.Repeatable && !w.usedInfinite: // an infinite lease whose release was cut off would never run out
		w.closeInUse(ctx, manager)
		return true
	case w.random.Float64() < 0.1 && w.index == 0 && !w.options.Repeatable:
		w.operate(w.names[0])
		return false
	case w.random.Float64() < 0.03 && !w.options.Repeatable:
		one := w.random.IntN(len(w.names)) // two of the three calls wait in the manager
		w.attemptTogether(ctx, manager, []int{one, one, one}, w.shortTime(4*time.Millisecond, 100*time.Millisecond))
		return false
	}
	return w.attempt(ctx, manager, w.names[w.random.IntN(len(w.names))], w.usage())
}

// arrivalPause is the pause between the arrivals of two waiters of a manager, so that their order is known.
const arrivalPause = 20 * time.Millisecond

// attemptTogether acquires several names concurrently, and holds each for a while.
func (w *worker) attemptTogether(ctx context.Context, manager *leasing.Manager, names []int, hold time.Duration) {
	var all sync.WaitGroup
	for n, i := range names {
		all.Go(func() {
			if n > 0 && names[n-1] == i { // the waiters arrive one after the other
				pause(ctx, time.Duration(n)*arrivalPause)
			}
			w.attempt(ctx, manager, w.names[i], usage{hold: hold, ttl: w.options.TTL})
		})
	}
	all.Wait()
}

// closeInUse closes a manager while one of its leases is in use. The holder releases the lease
// as soon as its context ends. The manager waits for the release, and accepts no new work.
func (w *worker) closeInUse(ctx context.Context, manager *leasing.Manager) {
	name, use := w.names[w.random.IntN(len(w.names))], usage{hold: 20 * w.options.TTL, ttl: w.options.TTL, do: w.random.Float64() < 0.5}
	if use.do {
		use.lingers = w.between(0.1, 1)
	}
	var all sync.WaitGroup
	all.Go(func() { w.attempt(ctx, manager, name, use) })
	all.Go(func() { // waits for the lease
		pause(ctx, arrivalPause)
		w.attempt(ctx, manager, name, usage{ttl: w.options.TTL})
	})
	pause(ctx, w.between(0.1, 1.5))
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.closeTimeout())
	defer cancel()
	closing := history.Answer{Worker: w.index, Verb: "close", Call: w.clock.now()}
	w.checkClosed(w.close(bound, manager))
	closing.Return = w.clock.now()
	w.journal.Enter(closing)
	if _, err := manager.TryAcquire(bound, name); !errors.Is(err, leasing.ErrClosed) {
		w.violation(history.CheckClose, "a manager of worker %d that is closed was asked for a lease, and said: %v", w.index, err)
	}
	all.Wait()
}

func (w *worker) attempt(ctx context.Context, manager *leasing.Manager, name string, usage usage) (crashed bool) {
	h := &holdRecorder{clock: w.clock, journal: w.journal, hold: history.Hold{Worker: w.index, Name: name, Renews: !usage.noRenewal && usage.most == 0, Most: usage.most}}
	options := &leasing.AcquireOptions{
		TTL: usage.ttl, Observer: h.observe, NoAutoRenew: usage.noRenewal, MaxRenewals: usage.most, Metadata: usage.metadata.values(),
	}
	if !usage.try {
		options.WaitLimit = w.waitLimit()
	}
	leaves := time.Duration(0)
	if !usage.try && !usage.do && !w.options.Repeatable && w.random.Float64() < 0.2 {
		leaves = min(w.between(0.01, 0.5), options.WaitLimit/2)
	}
	ctx, endWait := w.beginWait(ctx, name, usage.try, options.WaitLimit, leaves)
	var l *leasing.Lease
	work := func(work context.Context, lease *leasing.Lease) {
		endWait(true, nil)
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
	}
	var err error
	if caller, leave := context.WithCancel(ctx); usage.do {
		usage.leave = leave
		err = w.do(caller, manager.With(*options), name, work)
		leave()
	} else {
		err = w.acquire(caller, leave, leaves, usage.try, manager.With(*options), name, work)
	}
	switch {
	case l == nil:
		endWait(false, err)
		return false
	case !crashed && !usage.do:
		w.release(ctx, l, usage)
	}
	w.held.Delete(l.ID())
	return crashed
}

// do calls Manager.Do with a function that calls work, and records the result.
func (w *worker) do(ctx context.Context, manager *leasing.Manager, name string, work func(context.Context, *leasing.Lease)) error {
	var l *leasing.Lease
	var returned time.Duration
	err := manager.Do(ctx, name, func(ctx context.Context, lease *leasing.Lease) error {
		l = lease
		work(ctx, l)
		returned = w.clock.now()
		return nil
	})
	if l != nil {
		w.recordAnswer(ctx, history.Answer{Verb: "do", Call: returned}, l, err)
	}
	return err
}

// acquire calls Acquire or TryAcquire, and then work. leave cancels the context of the call; leaves is the time after
// which acquire calls leave; 0 means never.
func (w *worker) acquire(ctx context.Context, leave func(), leaves time.Duration, try bool, manager *leasing.Manager, name string, work func(context.Context, *leasing.Lease)) error {
	defer leave()
	acquire := manager.Acquire
	if try {
		acquire = manager.TryAcquire
	}
	if leaves > 0 {
		defer time.AfterFunc(leaves, leave).Stop()
	}
	lease, err := acquire(ctx, name)
	if !w.options.Repeatable { // not in a repeatable run, since the receiver of a wake-up in the same instant would be random
		leave() // must not end the lease
	}
	if err == nil {
		work(lease.Context(), lease)
	}
	return err
}

// checkMemory finds leases that a manager still references after their end. It runs before the
// manager is closed, for one worker only, because a garbage collection slows all workers.
func (w *worker) checkMemory() {
	if w.index != 0 || len(w.past) < 30 {
		return
	}
	runtime.GC()
	kept := 0
	for _, h := range w.past {
		if h.Value() != nil {
			kept++
		}
	}
	if kept > 10+len(w.past)/4 {
		w.violation(history.CheckGrowth, "a manager keeps %d of the %d leases that it has had", kept, len(w.past))
	}
}

// checkManager finds goroutines that a manager keeps although it has no lease, and all claims
// that it had to clean up have run out. It runs before the manager is closed, in virtual
// time, for every second worker. The other managers are closed while clean-ups are still pending.
func (w *worker) checkManager() {
	if w.index%2 == 0 || len(w.past) < 30 || !inBubble() {
		return
	}
	pause(context.Background(), settling(w.options))
	most := 4 // the manager's own goroutines, and this one
	if !w.states.Capabilities().HeedsContext {
		most += 20 // some goroutines remain for the next request
	}
	if stacks, n := goroutines(managerLabel, w.label()); n > most {
		w.violation(history.CheckGrowth, "a manager without a lease has %d goroutines: %s", n, strings.Join(stacks, "; "))
	}
}
