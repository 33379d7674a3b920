package torture

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
)

// worker is one of those who compete. It has a client of its own, and one manager
// after another on it, as a service that is restarted has.
type worker struct {
	*client
	index    int
	options  Options
	names    []string
	resource resource
	random   *rand.Rand
	jitter   *rand.Rand // the managers'
}

func newWorker(index int, options Options, names []string, client *client, resource resource) *worker {
	return &worker{
		client: client, index: index, options: options, names: names, resource: resource,
		random: chance(options.Seed, uint64(index)), jitter: chance(options.Seed, ^uint64(index)),
	}
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

func owner(index int) string { return fmt.Sprint("worker-", index) }

// run competes until ctx ends, and returns when all is released and closed, but
// for the client. What fails on the way is in the history, not an error.
func (w *worker) run(ctx context.Context) error {
	for ctx.Err() == nil {
		if err := w.useManager(ctx); err != nil {
			return err
		}
	}
	return nil
}

// useManager competes with one manager. That is closed in order when ctx ends. In a
// crash it is closed under its holder, and leaves behind what it has.
func (w *worker) useManager(ctx context.Context) error {
	options := w.options.Manager
	options.Owner = owner(w.index)
	options.Random = w.jitter.Float64
	manager, err := leasing.NewManager(w.recorder, options)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if crashed := w.compete(ctx, manager); crashed {
			return nil
		}
	}
	if w.options.Repeatable { // which clean-ups a Close still hurries along is chance
		pause(context.WithoutCancel(ctx), 2*w.options.TTL)
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.closeTimeout())
	defer cancel()
	_ = manager.Close(bound) // what it could not release runs out: see leaks
	return nil
}

// compete is one attempt to get a name and use it, or now and then several of them.
func (w *worker) compete(ctx context.Context, manager leasing.Manager) (crashed bool) {
	pause(ctx, w.brief(0, 240*time.Millisecond))
	switch {
	case ctx.Err() != nil:
		return false
	case w.random.Float64() < 0.015 && !w.options.Repeatable: // several goroutines take their numbers as they come
		w.holdSeveral(ctx, manager)
		return false
	}
	return w.attempt(ctx, manager, w.names[w.random.IntN(len(w.names))], w.usage())
}

// holdSeveral holds several names for a while, so that they are renewed in batches.
func (w *worker) holdSeveral(ctx context.Context, manager leasing.Manager) {
	var all sync.WaitGroup
	for _, i := range w.random.Perm(len(w.names))[:min(3, len(w.names))] {
		all.Go(func() { w.attempt(ctx, manager, w.names[i], usage{hold: w.between(0.9, 1.6)}) })
	}
	all.Wait()
}

// attempt is one to get a name and use it.
func (w *worker) attempt(ctx context.Context, manager leasing.Manager, name string, usage usage) (crashed bool) {
	h := &holdRecorder{clock: w.clock, journal: w.journal, hold: hold{Worker: w.index, Name: name}}
	options := &leasing.AcquireOptions{Observer: h.observe, NoAutoRenew: usage.forgetful, WaitLimit: w.waitLimit()}
	if usage.do {
		_ = leasing.DoWith(ctx, manager, name, options, func(work context.Context, l leasing.Lease) error {
			w.hold(work, ctx, manager, l, h, usage)
			return nil
		})
		return false
	}
	acquire := manager.Acquire
	if usage.try {
		acquire = manager.TryAcquire
	}
	l, err := acquire(ctx, name, options)
	if err != nil {
		return false
	}
	crashed = w.hold(l.Context(), ctx, manager, l, h, usage)
	if !crashed {
		w.release(ctx, l)
	}
	return crashed
}

// waitLimit is how long to wait for a name. In a repeatable run there is no limit:
// where a slow answer comes after both the limit and a wake-up, a manager's select
// takes either.
//
// For the same reason there are no crashes in one: what a manager's goroutines have
// still begun when it is closed under them is theirs to know.
func (w *worker) waitLimit() time.Duration {
	limit := w.between(0.1, 2)
	if w.options.Repeatable {
		return 0
	}
	return limit
}

// usage is how a worker uses one lease.
type usage struct {
	do, try   bool
	forgetful bool // does not renew
	manual    bool // renews by hand, too
	crash     bool
	hold      time.Duration
}

func (w *worker) usage() usage {
	kind, length := w.random.Float64(), w.random.Float64()
	s := usage{
		do: kind < 0.3, try: kind > 0.7,
		forgetful: w.random.Float64() < 0.04,
		manual:    w.random.Float64() < 0.1,
		crash:     w.random.Float64() < 0.02 && !w.options.Repeatable,
	}
	s.do = s.do && !s.crash // DoWith would release
	switch {                // of TTLs: mostly short, sometimes through renewals
	case s.forgetful:
		s.hold = w.between(0.8, 1.8)
	case length < 0.82:
		s.hold = w.brief(4*time.Millisecond, 200*time.Millisecond)
	case length < 0.95:
		s.hold = w.between(0.2, 0.9)
	default:
		s.hold = w.between(1, 2.4)
	}
	return s
}

// between is a random time between two fractions of the TTL.
func (w *worker) between(low, high float64) time.Duration {
	return time.Duration((low + (high-low)*w.random.Float64()) * float64(w.options.TTL))
}

// brief is a random time between two, or as much shorter as the TTL is under 2 s.
func (w *worker) brief(low, high time.Duration) time.Duration {
	scale := min(1, w.options.TTL.Seconds()/2)
	return time.Duration(scale * (float64(low) + w.random.Float64()*float64(high-low)))
}

// release is on a context of its own, like that of a worker that shuts down.
func (w *worker) release(ctx context.Context, l leasing.Lease) {
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.TTL)
	defer cancel()
	_ = l.Release(bound) // the manager goes on in the background
}

// hold works under a lease until it has had enough, run ends, or the lease does.
func (w *worker) hold(work, run context.Context, manager leasing.Manager, l leasing.Lease, h *holdRecorder, usage usage) (crashed bool) {
	h.begin(l)
	enough := time.NewTimer(usage.hold)
	defer enough.Stop()
	for {
		w.write(l)
		if usage.manual && w.random.Float64() < 0.2 {
			_ = l.Renew(work) // the engine goes on either way
		}
		tick := time.NewTimer(w.brief(20*time.Millisecond, 200*time.Millisecond))
		select {
		case <-tick.C:
		case <-work.Done():
		case <-run.Done():
		case <-enough.C:
			if usage.crash {
				tick.Stop()
				return w.crash(run, manager, h)
			}
			usage.hold = 0
		}
		tick.Stop()
		switch {
		case lost(l):
			w.afterLoss(run, l, h)
			return false
		case work.Err() != nil || run.Err() != nil || usage.hold == 0:
			h.end(endingGivenUp)
			return false
		}
	}
}

func lost(l leasing.Lease) bool { return errors.Is(l.Err(), leasing.ErrLost) }

// afterLoss waits for the word that the lease is lost, and then writes once more as a
// process does that was stopped between its check and its write.
func (w *worker) afterLoss(run context.Context, l leasing.Lease, h *holdRecorder) {
	select {
	case <-l.Done():
		h.told(w.clock.now())
	case <-time.After(w.options.Patience + w.options.TTL):
		return // never told
	}
	pause(run, w.between(0, 0.3))
	w.write(l)
}

// crash leaves without a word: the lease is not released, and runs out.
func (w *worker) crash(run context.Context, manager leasing.Manager, h *holdRecorder) (crashed bool) {
	h.end(endingAbandoned)
	gone, cancel := context.WithCancel(context.WithoutCancel(run))
	cancel()
	_ = manager.Close(gone)
	return true
}

// write writes to the resource once, with the lease's token.
func (w *worker) write(l leasing.Lease) {
	bound, cancel := context.WithTimeout(context.Background(), w.options.Patience)
	defer cancel()
	one := write{Worker: w.index, Name: l.Name(), Claim: l.ID(), Token: l.Token(), Call: w.clock.now(), Trusted: l.Err() == nil}
	if w.resource.write(bound, &one) != nil {
		return
	}
	one.Trusted, one.Return = l.Err() == nil && one.Trusted, w.clock.now()
	w.journal.enter(one)
}
