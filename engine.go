package leasing

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// engine sends the requests that the manager makes by itself, renewals and
// clean-ups, a bounded number of each at a time. The bound spares the backend;
// it costs no lease: a job that has waited for a place for a quarter of the
// time that its request may take is sent without one, so hung requests don't
// keep healthy ones from being sent.
type engine struct {
	m *manager
	// gathered and due are what came due since the last dispatch. Only the
	// loop uses them.
	gathered map[batchKey][]*lease
	due      []*cleanup

	mu       sync.Mutex
	renewals lane
	cleanups lane
}

// lane is a queue for a number of places.
type lane struct {
	jobs    []*job
	running int
	limit   int
}

// job is one request: renewals that share it, or a clean-up.
type job struct {
	leases  []*lease
	cleanup *cleanup
	patient time.Duration // how long it may wait for a place
	overdue *time.Timer   // tells when it has; nil while it need not wait
	started bool
}

// batchKey groups renewals that may share a request: a batch is bounded by its
// most urgent item, so it takes leases with about the same time left (to a
// power of two); and the more often they have failed, the fewer share their
// fate.
type batchKey struct {
	bound    int // the logarithm of what one attempt may take
	failures int
}

func newEngine(m *manager) *engine {
	e := &engine{m: m, gathered: map[batchKey][]*lease{}}
	e.renewals.limit = m.options.RenewConcurrency
	e.cleanups.limit = max(1, m.options.RenewConcurrency/4)
	return e
}

// gather takes a lease whose renewal is due. The next dispatch sends it.
func (e *engine) gather(l *lease, left time.Duration) {
	bound := attemptBound(left, e.m.options.RequestTimeout)
	key := batchKey{bound: bits.Len64(uint64(bound)), failures: min(l.failures, 2)}
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
		patient := time.Duration(1) << max(key.bound-1, 0) / patience
		for batch := range slices.Chunk(leases, e.batchSize(key)) {
			e.renewals.jobs = append(e.renewals.jobs, &job{leases: batch, patient: patient})
		}
		delete(e.gathered, key)
	}
	for _, c := range e.due {
		e.cleanups.jobs = append(e.cleanups.jobs, &job{cleanup: c, patient: e.m.options.RequestTimeout})
	}
	e.due = nil
	for _, l := range [...]*lane{&e.renewals, &e.cleanups} {
		e.fill(l)
		e.arm(l)
	}
}

// arm sees to it that those who are left to wait, the newest at the end, don't
// wait for too long; and it drops those at the front that did. Needs mu.
func (e *engine) arm(l *lane) {
	for _, j := range slices.Backward(l.jobs) {
		if j.overdue != nil {
			break
		}
		j.overdue = time.AfterFunc(j.patient, func() { e.insist(l, j) })
	}
	for len(l.jobs) > 0 && l.jobs[0].started {
		l.jobs[0] = nil
		l.jobs = l.jobs[1:]
	}
}

// fill gives the free places of a lane to jobs. Needs mu.
func (e *engine) fill(l *lane) {
	for l.running < l.limit && e.m.lifetime.Err() == nil {
		j := l.next()
		if j == nil {
			return
		}
		e.start(l, j)
	}
}

// insist starts a job that has waited for too long.
func (e *engine) insist(l *lane, j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !j.started {
		e.start(l, j)
	}
}

// start gives a job a goroutine. Needs mu.
func (e *engine) start(l *lane, j *job) {
	j.begin()
	if e.m.spawn(func() { e.work(l, j) }) {
		l.running++
	}
}

func (j *job) begin() {
	j.started = true
	if j.overdue != nil {
		j.overdue.Stop()
	}
}

// next takes the first job that has not been started. Needs mu.
func (l *lane) next() (j *job) {
	for len(l.jobs) > 0 {
		j, l.jobs[0] = l.jobs[0], nil
		l.jobs = l.jobs[1:]
		if !j.started {
			return j
		}
	}
	l.jobs = nil
	return nil
}

// work does jobs until there are none, or more at a time than the lane allows.
func (e *engine) work(l *lane, j *job) {
	for j != nil {
		e.do(j)
		j = e.following(l)
	}
}

func (e *engine) following(l *lane) *job {
	e.mu.Lock()
	defer e.mu.Unlock()
	if l.running <= l.limit && e.m.lifetime.Err() == nil {
		if j := l.next(); j != nil {
			j.begin()
			return j
		}
	}
	l.running--
	return nil
}

func (e *engine) do(j *job) {
	switch {
	case j.cleanup != nil:
		j.cleanup.try()
	case len(j.leases) == 1:
		_ = j.leases[0].renewAlone(e.m.lifetime) // the lease has noted it
	default:
		e.renewBatch(j.leases)
	}
}

// patience is the part of the time that its request may take for which a job
// waits for a place.
const patience = 4

// renewBatch renews several leases in one request. An item that the provider
// does not answer for is unknown, like any other failure.
func (e *engine) renewBatch(leases []*lease) {
	sent := e.m.clock.now()
	bound := e.m.options.RequestTimeout
	live := leases[:0]
	reqs := make([]abstractions.RenewRequest, 0, len(leases))
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
	results, err := e.m.batch.RenewBatch(ctx, reqs)
	switch {
	case err == nil:
		err = errNoAnswer
	case errors.Is(err, ErrLost): // which of them, it does not say
		err = fmt.Errorf("%w: %v", errNoAnswer, err)
	}
	now, renewals := e.m.clock.now(), tally{}
	for i, l := range live {
		result := abstractions.RenewResult{Err: err}
		if i < len(results) && (results[i].Err != nil || results[i].Grant.ID != "") {
			result = results[i]
		}
		_ = l.finishRenewal(sent, now, result.Grant, result.Err, renewals) // the lease has noted it
	}
	for s, n := range renewals {
		e.m.telemetry.renewals(s, now.mono-sent.mono, n)
	}
}

// tally counts the renewals of a batch that succeeded.
type tally map[*scope]int64
