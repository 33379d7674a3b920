package leasing

import (
	"context"
	"math/bits"
	"sync"
	"time"
)

// engine sends the requests that the manager makes by itself, a bounded number
// at a time, on three lanes that can't block each other: renewals, renewals of
// leases whose last attempt hung, and clean-ups.
//
// A request that has become slow gives its place up and goes on beside: places
// are for requests that a healthy backend answers.
type engine struct {
	m *manager
	// gathered is what came due since the last dispatch. Only the loop uses it.
	gathered map[batchKey][]*lease
	due      []*cleanup

	mu    sync.Mutex
	lanes [3]lane
}

const (
	laneFresh = iota
	laneHung
	laneCleanup
)

type lane struct {
	jobs    []job
	running int
	limit   int
}

// job is one request: renewals that share it, or a clean-up.
type job struct {
	leases  []*lease
	cleanup *cleanup
}

// batchKey groups renewals that may share a request: a batch is bounded by its
// most urgent item, so it takes leases with about the same time left (to a
// power of two); and the more often they have failed, the fewer share their
// fate.
type batchKey struct {
	bound    int
	failures int
	hung     bool
}

func newEngine(m *manager) *engine {
	e := &engine{m: m, gathered: map[batchKey][]*lease{}}
	e.lanes[laneFresh].limit = m.options.RenewConcurrency
	e.lanes[laneHung].limit = max(1, m.options.RenewConcurrency/4)
	e.lanes[laneCleanup].limit = max(1, m.options.RenewConcurrency/4)
	return e
}

// gather takes a lease whose renewal is due. The next dispatch sends it.
func (e *engine) gather(l *lease, left time.Duration) {
	bound := attemptBound(left, e.m.options.RequestTimeout)
	key := batchKey{bound: bits.Len64(uint64(bound)), failures: min(l.failures, 2), hung: l.hung}
	e.gathered[key] = append(e.gathered[key], l)
}

func (e *engine) gatherCleanup(c *cleanup) { e.due = append(e.due, c) }

// batchSize is how many leases of a key share a request: all that may at
// first, then a sixteenth, then each for itself.
func (e *engine) batchSize(key batchKey) int {
	if e.m.batch == nil {
		return 1
	}
	return max(1, e.m.options.RenewBatch>>(4*key.failures))
}

// dispatch queues what was gathered and starts what there is a place for.
func (e *engine) dispatch() {
	if len(e.gathered) == 0 && len(e.due) == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for key, leases := range e.gathered {
		to := &e.lanes[laneFresh]
		if key.hung {
			to = &e.lanes[laneHung]
		}
		for size := e.batchSize(key); len(leases) > 0; {
			n := min(size, len(leases))
			to.jobs = append(to.jobs, job{leases: leases[:n:n]})
			leases = leases[n:]
		}
		delete(e.gathered, key)
	}
	for _, c := range e.due {
		e.lanes[laneCleanup].jobs = append(e.lanes[laneCleanup].jobs, job{cleanup: c})
	}
	e.due = nil
	for i := range e.lanes {
		e.start(&e.lanes[i])
	}
}

// start fills the free places of a lane. Needs mu.
func (e *engine) start(on *lane) {
	for on.running < on.limit && len(on.jobs) > 0 && e.m.lifetime.Err() == nil {
		on.running++
		first := on.next()
		e.m.goroutines.Go(func() { e.work(on, first) })
	}
}

func (l *lane) next() job {
	j := l.jobs[0]
	l.jobs[0] = job{}
	if l.jobs = l.jobs[1:]; len(l.jobs) == 0 {
		l.jobs = nil
	}
	return j
}

// work does jobs in one place until there are none, or until one was so slow
// that it lost the place.
func (e *engine) work(on *lane, j job) {
	for {
		place := &place{engine: e, lane: on}
		e.do(j, place)
		e.mu.Lock()
		if place.lost {
			e.mu.Unlock()
			return
		}
		place.left = true
		if len(on.jobs) == 0 || e.m.lifetime.Err() != nil {
			on.running--
			e.mu.Unlock()
			return
		}
		j = on.next()
		e.mu.Unlock()
	}
}

func (e *engine) do(j job, p *place) {
	if j.cleanup != nil {
		j.cleanup.try(p)
		return
	}
	if len(j.leases) == 1 {
		j.leases[0].renewAlone(e.m.lifetime, p.hold)
		return
	}
	e.renewBatch(j.leases, p)
}

// place is one of the concurrent requests that a lane allows.
type place struct {
	engine     *engine
	lane       *lane
	lost, left bool // under engine.mu
}

// patience is how much of its bound a request may take before it counts as
// slow, and the most it may take.
const patience, maxPatience = 4, time.Second

// hold keeps the place for a request of the given bound while it is not slow.
func (p *place) hold(bound time.Duration) (stop func() bool) {
	return time.AfterFunc(min(bound/patience, maxPatience), p.yield).Stop
}

func (p *place) yield() {
	p.engine.mu.Lock()
	defer p.engine.mu.Unlock()
	if p.left || p.lost {
		return
	}
	p.lost = true
	p.lane.running--
	p.engine.start(p.lane)
}

// renewBatch renews several leases in one request. An item that the provider
// does not answer for is unknown, like any other failure.
func (e *engine) renewBatch(leases []*lease, p *place) {
	sent := e.m.clock.now()
	bound := e.m.options.RequestTimeout
	live := leases[:0]
	reqs := make([]RenewRequest, 0, len(leases))
	for _, l := range leases {
		req, b, ok := l.beginRenewal(sent)
		if !ok {
			continue
		}
		live, reqs, bound = append(live, l), append(reqs, req), min(bound, b)
	}
	if len(live) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(e.m.lifetime, bound)
	defer cancel()
	ctx, span := e.m.telemetry.startBatch(ctx, live)
	defer span.End()
	stop := p.hold(bound)
	results, err := e.m.batch.RenewBatch(ctx, reqs)
	stop()
	if err == nil {
		err = errNoAnswer
	}
	hung := ctx.Err() != nil
	for i, l := range live {
		result := RenewResult{Err: err}
		if i < len(results) && (results[i].Err != nil || results[i].Grant.ID != "") {
			result = results[i]
		}
		l.finishRenewal(sent, result.Grant, result.Err, hung)
	}
}
