package torture

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
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
	waits    atomic.Int64
	closed   *atomic.Bool                 // the present manager is
	endless  bool                         // there was a lease without an end
	mu       sync.Mutex                   // guards past
	past     []weak.Pointer[holdRecorder] // of the present manager's leases
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

// jitter is what a manager leaves to chance. It depends on the time, and not on which of its
// goroutines asks first at that time.
func (w *worker) jitter() float64 {
	return rand.New(rand.NewPCG(w.options.Seed+uint64(w.index), uint64(w.clock.now()))).Float64()
}

func owner(index int) string { return fmt.Sprint("worker-", index) }

// run competes until ctx ends, and returns when all is released and closed, but
// for the client. What fails on the way is in the history, not an error.
func (w *worker) run(ctx context.Context) (err error) {
	for ctx.Err() == nil && err == nil {
		err = labelled(ctx, managerLabel, w.label(), w.useManager)
	}
	return err
}

// useManager competes with one manager. That is closed in order when ctx ends. In a
// crash it is closed under its holder, and leaves behind what it has.
func (w *worker) useManager(ctx context.Context) error {
	options := w.options.Manager
	options.Owner = owner(w.index)
	options.Random = w.jitter
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
			panic("an observer, which harms nobody")
		}
	})
	manager.Subscribe(func(e leasing.Event) {
		if closed.Load() {
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
	if w.options.Repeatable { // which clean-ups a Close still hurries along is chance
		pause(context.WithoutCancel(ctx), 2*w.options.TTL)
	}
	w.checkMemory()
	w.checkManager()
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), w.options.closeTimeout())
	defer cancel()
	w.checkClosed(w.close(bound, manager)) // what it could not release runs out: see leaks
	return nil
}

// compete is one attempt to get a name and use it, or now and then several of them.
func (w *worker) compete(ctx context.Context, manager leasing.Manager) (crashed bool) {
	pause(ctx, w.brief(0, 240*time.Millisecond))
	switch {
	case ctx.Err() != nil:
		return false
	case w.random.Float64() < w.rarely(0.015) && !w.options.Repeatable: // several goroutines take their numbers as they come
		several := w.random.Perm(len(w.names))[:min(3, len(w.names))] // they are renewed in batches
		w.together(ctx, manager, several, w.between(0.9, 1.6))
		return false
	case w.random.Float64() < w.rarely(0.015) && !w.options.Repeatable:
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

// queueing is the time from one waiter of a manager to the next, so that it is known who came first.
const queueing = 20 * time.Millisecond

// together wants some names at once, for a while.
func (w *worker) together(ctx context.Context, manager leasing.Manager, names []int, hold time.Duration) {
	var all sync.WaitGroup
	for n, i := range names {
		all.Go(func() {
			if n > 0 && names[n-1] == i { // one after the other waits for it
				pause(ctx, time.Duration(n)*queueing)
			}
			w.attempt(ctx, manager, w.names[i], usage{hold: hold, ttl: w.options.TTL})
		})
	}
	all.Wait()
}

// attempt is one to get a name and use it.
func (w *worker) attempt(ctx context.Context, manager leasing.Manager, name string, usage usage) (crashed bool) {
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
	var l leasing.Lease
	var failed error
	work := func(work context.Context, lease leasing.Lease) error {
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
		clear(options.Metadata) // a manager keeps its own
		crashed = w.hold(work, ctx, manager, l, h, usage)
		return nil
	}
	if usage.do {
		caller, leave := context.WithCancel(ctx)
		defer leave()
		usage.leave = leave
		var returned time.Duration
		err := leasing.DoWith(caller, manager, name, options, func(ctx context.Context, lease leasing.Lease) error {
			err := work(ctx, lease)
			returned = w.clock.now()
			return err
		})
		if failed = err; l != nil {
			w.heard(caller, word{Verb: "do", Call: returned}, l, err)
		}
	} else {
		acquire := manager.Acquire
		if usage.try {
			acquire = manager.TryAcquire
		}
		wait, leave := context.WithCancel(ctx)
		defer leave()
		if leaves > 0 {
			defer time.AfterFunc(leaves, leave).Stop()
		}
		lease, err := acquire(wait, name, options)
		if !w.options.Repeatable { // whom its hint goes to in that instant is chance
			leave() // which ends no lease
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

// waiting enters a wait, and returns its context and what enters its end.
func (w *worker) waiting(ctx context.Context, name string, try bool, limit, leaves time.Duration) (waits context.Context, back func(got bool, err error)) {
	one := wait{Worker: w.index, Number: int(w.waits.Add(1)), Name: name, Try: try, From: w.clock.now()}
	switch {
	case try:
		one.Bound = one.From + w.options.Manager.RequestTimeout
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
			one.Holder, one.Own = held.Holder.ID, held.ByThisManager
		}
		w.journal.enter(one)
	}
}

// waitLimit is how long to wait for a name. In a repeatable run there is no limit:
// where a slow answer comes after both the limit and a wake-up, a manager's select
// takes either.
//
// For the same reason there are no crashes in one: what a manager's goroutines have
// still begun when it is closed under them is theirs to know.
func (w *worker) waitLimit() time.Duration {
	if w.options.Repeatable {
		return 0
	}
	return w.between(0.1, 2)
}

// usage is how a worker uses one lease.
type usage struct {
	do, try   bool
	forgetful bool // does not renew
	manual    bool // renews by hand, too
	crash     bool
	most      int                // renewals; 0: any number
	leaves    bool               // the caller of Do does, in the middle of the work
	leave     context.CancelFunc // for which it calls this
	lingers   time.Duration      // the work ends so long after it was told to, in a Do
	hasty     bool               // the context of the release has ended before it
	twice     bool               // releases twice at once
	hold      time.Duration
	ttl       time.Duration
	metadata  metadata
}

// metadata is what a holder has set, as a text; "" if that is not known.
type metadata string

const noMetadata metadata = "none"

func (m metadata) values() map[string]string {
	if m == "" || m == noMetadata {
		return nil
	}
	return map[string]string{"is": string(m)}
}

// read is the text of some metadata.
func read(values map[string]string) string { return cmp.Or(values["is"], string(noMetadata)) }

func (w *worker) usage() usage {
	kind, length := w.random.Float64(), w.random.Float64()
	s := usage{
		do: kind < 0.3, try: kind > 0.7,
		forgetful: w.random.Float64() < w.rarely(0.04),
		manual:    w.random.Float64() < 0.3,
		crash:     w.random.Float64() < w.rarely(0.02) && !w.options.Repeatable,
		ttl:       w.ttl(),
		metadata:  noMetadata,
	}
	s.do = s.do && !s.crash // DoWith would release
	w.endless = w.endless || s.ttl == leasing.Infinite
	s.crash = s.crash && !w.endless // nobody would free the name, whose clean-up may go on for long
	s.forgetful = s.forgetful && s.ttl != leasing.Infinite
	if w.random.Float64() < 0.3 {
		s.metadata = metadata(fmt.Sprint(w.random.IntN(1e6)))
	}
	releases := w.random.Float64()
	s.hasty, s.twice = releases < 0.1, releases > 0.9 && !w.options.Repeatable
	if s.ttl != leasing.Infinite && w.random.Float64() < w.rarely(0.1) {
		s.most = 1 + w.random.IntN(2)
	}
	if s.forgetful || s.most > 0 { // only the manager renews
		s.manual, s.metadata = false, ""
	}
	if s.do {
		if s.leaves = w.random.Float64() < 0.2; !s.leaves && w.random.Float64() < w.rarely(0.2) {
			s.lingers = w.between(0.2, 1.2)
		}
	}
	switch long := w.rarely(0.18); { // of TTLs: mostly short, sometimes through renewals
	case s.forgetful:
		s.hold = w.between(0.8, 1.8)
	case length < 1-long:
		s.hold = w.brief(4*time.Millisecond, 200*time.Millisecond)
	case length < 1-long*0.28:
		s.hold = w.between(0.2, 0.9)
	default:
		s.hold = w.between(1, 2.4)
	}
	return s
}

// ttl is mostly the run's, sometimes a shorter one, or none at all.
func (w *worker) ttl() time.Duration {
	switch kind := w.random.Float64(); {
	case kind < 0.1:
		return max(w.options.TTL/2, w.options.least)
	case kind < 0.2:
		return max(w.options.TTL*3/4, w.options.least)
	case kind < 0.22 && w.options.infinite && w.index%4 == 3:
		return leasing.Infinite
	}
	return w.options.TTL
}

// rarely is how likely something is that takes as long as a lease: the less, the busier the
// workers are.
func (w *worker) rarely(probability float64) float64 { return probability / w.options.Intensity }

// between is a random time between two fractions of the TTL.
func (w *worker) between(low, high float64) time.Duration {
	return time.Duration((low + (high-low)*w.random.Float64()) * float64(w.options.TTL))
}

// brief is a random time between two, or as much shorter as the TTL is under 2 s, and as the
// workers are busier.
func (w *worker) brief(low, high time.Duration) time.Duration {
	scale := min(1, w.options.TTL.Seconds()/2) / w.options.Intensity
	return time.Duration(scale * (float64(low) + w.random.Float64()*float64(high-low)))
}

// release is on a context of its own, like that of a worker that shuts down.
func (w *worker) release(ctx context.Context, l leasing.Lease, usage usage) {
	limit := w.options.TTL
	if usage.hasty {
		limit = 0
	}
	bound, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	var all sync.WaitGroup
	for range map[bool]int{false: 1, true: 2}[usage.twice] {
		all.Go(func() {
			called := w.clock.now()
			w.heard(bound, word{Verb: "release", Call: called}, l, l.Release(bound)) // the manager goes on in the background
		})
	}
	all.Wait()
	if !w.options.Repeatable && inBubble() && w.random.Float64() < 0.1 && l.Release(bound) == nil { // which was answered
		w.copyAcquire(l, false)
	}
}

// askAgain tries to get a name of which the worker has a lease.
func (w *worker) askAgain(ctx context.Context, manager leasing.Manager, l leasing.Lease) {
	ctx, back := w.waiting(ctx, l.Name(), true, 0, 0)
	second, err := manager.TryAcquire(ctx, l.Name(), nil)
	if back(err == nil, err); err == nil { // the first one was broken
		_ = second.Release(context.WithoutCancel(ctx))
	}
}

// renew is by hand, and not for long: the engine goes on either way.
func (w *worker) renew(ctx context.Context, l leasing.Lease) {
	bound, cancel := context.WithTimeout(ctx, w.between(0.05, 0.5))
	defer cancel()
	called := w.clock.now()
	w.heard(bound, word{Verb: "renew", Call: called}, l, l.Renew(bound))
}

// heard enters what a lease has told its holder.
func (w *worker) heard(ctx context.Context, one word, l leasing.Lease, err error) {
	one.Worker, one.Name, one.Claim, one.Return, one.Result = w.index, l.Name(), l.ID(), w.clock.now(), resultOf(err)
	one.Cut = errors.Is(ctx.Err(), context.Canceled)
	if deadline, ok := ctx.Deadline(); ok {
		one.Bound = w.clock.at(deadline)
		one.Cut = one.Cut || one.Return >= one.Bound
	}
	one.Unclear = one.Result == resultUnknown && !one.Cut && !errors.Is(err, leasing.ErrUnavailable)
	w.journal.enter(one)
}

// hold works under a lease until it has had enough, run ends, or the lease does.
func (w *worker) hold(work, run context.Context, manager leasing.Manager, l leasing.Lease, h *holdRecorder, usage usage) (crashed bool) {
	enough := time.NewTimer(usage.hold)
	defer enough.Stop()
	if usage.leaves {
		leaving := time.AfterFunc(usage.hold/2, func() {
			usage.leave()
			w.journal.enter(word{Worker: w.index, Name: l.Name(), Claim: l.ID(), Verb: "leave", Call: w.clock.now()})
		})
		defer leaving.Stop()
	}
	var asking sync.WaitGroup
	defer asking.Wait()
	if usage.forgetful {
		atTheEnd := time.AfterFunc(l.Remaining(), func() {
			if l.Remaining() == 0 && l.Err() == nil {
				w.journal.enter(Violation{Check: checkTrust, Name: l.Name(), At: w.clock.now(), Text: fmt.Sprintf("a lease of worker %d has no time left, and is said to be held", w.index)})
			}
		})
		defer atTheEnd.Stop()
	}
	for {
		w.write(l)
		if !w.options.Repeatable && w.random.Float64() < 0.05 && l.TTL() != leasing.Infinite {
			w.copyAcquire(l, true)
		}
		if !w.options.Repeatable && w.random.Float64() < 0.02 {
			asking.Go(func() { w.askAgain(work, manager, l) })
		}
		if usage.manual && w.random.Float64() < 0.4 {
			w.renew(work, l)
		}
		if rarer := usage.metadata == noMetadata; usage.metadata != "" && w.random.Float64() < map[bool]float64{false: 0.4, true: 0.05}[rarer] {
			w.change(work, l, &usage.metadata)
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
			if !w.options.Repeatable {
				w.copyRenewal(l)
			}
			return false
		case work.Err() != nil || run.Err() != nil || usage.hold == 0:
			if l.Context().Err() != nil {
				w.heard(run, word{Verb: "end", Call: w.clock.now()}, l, context.Cause(l.Context()))
			}
			if usage.lingers > 0 {
				_ = l.Release(work) // which ends the work only
				pause(context.WithoutCancel(run), usage.lingers)
			}
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
		at := w.clock.now()
		h.told(at)
		w.heard(run, word{Verb: "end", Call: at}, l, context.Cause(l.Context()))
	case <-time.After(w.options.Patience + w.options.TTL):
		return // never told
	}
	pause(run, w.between(0, 0.3))
	w.write(l)
	w.renew(context.WithoutCancel(run), l)
}

// crash leaves without a word: the lease is not released, and runs out.
func (w *worker) crash(run context.Context, manager leasing.Manager, h *holdRecorder) (crashed bool) {
	if w.random.Float64() < 0.3 {
		w.closePatiently(manager)
		h.end(endingAbandoned)
		return true
	}
	h.end(endingAbandoned)
	gone, cancel := context.WithCancel(context.WithoutCancel(run))
	cancel()
	_ = w.close(gone, manager)
	return true
}

// write writes to the resource once, with the lease's token.
func (w *worker) write(l leasing.Lease) {
	bound, cancel := context.WithTimeout(context.Background(), w.options.Patience)
	defer cancel()
	one := write{Worker: w.index, Name: l.Name(), Claim: l.ID(), Token: l.Token(), Call: w.clock.now(), Trusted: l.Err() == nil}
	if w.resource(bound, &one) != nil {
		return
	}
	one.Remaining = l.Remaining()
	one.Trusted, one.Return = l.Err() == nil && one.Trusted, w.clock.now()
	w.journal.enter(one)
}

// change looks at the lease, and mostly gives it other metadata first. The backend is asked
// below the faults: what they hide from a manager is no lie of the backend's.
func (w *worker) change(ctx context.Context, l leasing.Lease, m *metadata) {
	if w.random.Float64() < 0.7 {
		next := metadata(fmt.Sprint(w.random.IntN(1e6)))
		called := w.clock.now()
		err := l.SetMetadata(ctx, next.values())
		w.heard(ctx, word{Verb: "set", Call: called}, l, err)
		if err != nil {
			*m = "" // the one or the other
			return
		}
		*m = next
	}
	clear(l.Metadata()) // which is the holder's own copy
	bound, cancel := context.WithTimeout(ctx, w.options.Patience+time.Second)
	defer cancel()
	one := sight{
		Worker: w.index, Name: l.Name(), Claim: l.ID(), Token: l.Token(), Call: w.clock.now(), Trusted: l.Err() == nil,
		Metadata: string(*m), Has: read(l.Metadata()),
	}
	record, err := w.below.Inspect(bound, abstractions.InspectRequest{Name: l.Name()})
	if err != nil || record.Unconfirmed {
		return
	}
	one.Holder, one.HolderToken, one.Shown = record.ID, record.Token, read(record.Metadata)
	if record.Owner != owner(w.index) {
		one.Other = record.Owner
	}
	if w.random.Float64() < 0.2 {
		w.list(bound, &one)
	}
	clear(record.Metadata) // which is a copy too
	one.Trusted, one.Return = l.Err() == nil && one.Trusted, w.clock.now()
	w.journal.enter(one)
}
