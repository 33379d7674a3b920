package leasing

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// engine sends the requests that the manager makes by itself, a bounded number
// at a time of each kind: renewals, renewals of leases whose last renewal
// failed, and clean-ups. The first bound spares the backend, and costs no lease: a
// job that has waited for a place for a quarter of the time that its request
// may take is overdue, and is sent without one. The second bound holds for
// overdue jobs too: while a server hangs, goroutines and requests stay few, however many
// leases there are. So leases whose renewals hang don't keep others from being renewed.
type engine struct {
	m *manager
	// gathered and due are what came due since the last dispatch. Only the
	// loop uses them.
	gathered map[batchKey][]*lease
	due      []*cleanup
	// overdue are batches. They don't stand in for a lease's own requests.
	overdue overdue

	mu       sync.Mutex
	renewals queueOfJobs
	retries  queueOfJobs
	cleanups queueOfJobs
}

// queueOfJobs is the jobs of a kind and the workers that do them.
type queueOfJobs struct {
	jobs    []*job // in the order in which they came; some have been started
	overdue []*job // in the order in which they became so; some have been started
	workers int
	limit   int // of workers
	most    int // of workers while jobs are overdue
}

// job is one request: renewals that share it, or a clean-up.
type job struct {
	leases  []*lease
	cleanup *cleanup
	wait    time.Duration // how long it may wait for a place
	timer   *time.Timer   // makes it overdue; nil while it need not wait
	started bool
}

// overduePart is the part of the time that its request may take for which a
// job waits for a place; and the part that its request gets while other jobs of
// its kind are overdue and have no place.
const overduePart = 4

// mostJobs is how many requests of a kind run at a time where jobs are overdue,
// or overdueFactor times the usual number if that is more.
const (
	mostJobs      = 256
	overdueFactor = 16
)

func newQueueOfJobs(limit int) queueOfJobs {
	return queueOfJobs{limit: limit, most: max(mostJobs, overdueFactor*limit)}
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
	e := &engine{m: m, gathered: map[batchKey][]*lease{}, overdue: overdue{limit: mostJobs}}
	e.renewals = newQueueOfJobs(m.options.RenewConcurrency)
	e.retries = newQueueOfJobs(m.options.RenewConcurrency)
	e.cleanups = newQueueOfJobs(max(1, m.options.RenewConcurrency/4))
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
		q, wait := &e.renewals, time.Duration(1)<<max(key.bound-1, 0)/overduePart
		if key.failures > 0 {
			q = &e.retries
		}
		for batch := range slices.Chunk(leases, e.batchSize(key)) {
			q.jobs = append(q.jobs, &job{leases: batch, wait: wait})
		}
		delete(e.gathered, key)
	}
	for _, c := range e.due {
		e.cleanups.jobs = append(e.cleanups.jobs, &job{cleanup: c, wait: e.m.options.RequestTimeout})
	}
	e.due = nil
	for _, q := range [...]*queueOfJobs{&e.renewals, &e.retries, &e.cleanups} {
		e.fill(q)
		e.arm(q)
	}
}

// fill starts workers for the free places. Caller holds mu.
func (e *engine) fill(q *queueOfJobs) {
	for q.workers < q.limit && e.m.lifetime.Err() == nil {
		j := q.take()
		if j == nil {
			return
		}
		e.startWorker(q, j)
	}
}

// arm starts the timers of the jobs that are left to wait, the newest at the
// end. Caller holds mu.
func (e *engine) arm(q *queueOfJobs) {
	for _, j := range slices.Backward(q.jobs) {
		if j.timer != nil {
			break
		}
		j.timer = time.AfterFunc(j.wait, func() { e.becomeOverdue(q, j) })
	}
	q.jobs = dropStarted(q.jobs)
}

func (e *engine) becomeOverdue(q *queueOfJobs, j *job) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case j.started || e.m.lifetime.Err() != nil:
	case q.workers < q.most:
		e.startWorker(q, j)
	default:
		q.overdue = append(q.overdue, j)
	}
}

// startWorker begins with a job in a goroutine. Caller holds mu.
func (e *engine) startWorker(q *queueOfJobs, j *job) {
	j.start()
	if e.m.spawn(func() { e.work(q, j) }) {
		q.workers++
	}
}

func (j *job) start() {
	j.started = true
	if j.timer != nil {
		j.timer.Stop()
	}
}

// take removes the first job that waits, an overdue one before others. Caller
// holds the engine's mu.
func (q *queueOfJobs) take() *job {
	q.overdue = dropStarted(q.overdue)
	q.jobs = dropStarted(q.jobs)
	for _, waiting := range [...]*[]*job{&q.overdue, &q.jobs} {
		if len(*waiting) > 0 {
			j := (*waiting)[0]
			(*waiting)[0] = nil
			*waiting = (*waiting)[1:]
			return j
		}
	}
	return nil
}

// dropStarted removes the jobs at the front that have been started.
func dropStarted(jobs []*job) []*job {
	for len(jobs) > 0 && jobs[0].started {
		jobs[0] = nil
		jobs = jobs[1:]
	}
	if len(jobs) == 0 {
		return nil
	}
	return jobs
}

// work does jobs until there are none, or more workers than there may be.
func (e *engine) work(q *queueOfJobs, j *job) {
	for j != nil {
		e.do(j, e.share(q))
		j = e.following(q)
	}
}

func (e *engine) following(q *queueOfJobs) *job {
	e.mu.Lock()
	defer e.mu.Unlock()
	q.overdue = dropStarted(q.overdue)
	if e.m.lifetime.Err() == nil && (q.workers <= q.limit || len(q.overdue) > 0) {
		if j := q.take(); j != nil {
			j.start()
			return j
		}
	}
	q.workers--
	return nil
}

// share returns which part of its time a request gets.
func (e *engine) share(q *queueOfJobs) time.Duration {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(q.overdue) > 0 {
		return overduePart
	}
	return 1
}

func (e *engine) do(j *job, part time.Duration) {
	switch {
	case j.cleanup != nil:
		j.cleanup.try()
	case len(j.leases) == 1:
		_ = j.leases[0].renewAlone(e.m.lifetime, part) // the lease has noted it
	default:
		e.renewBatch(j.leases, part)
	}
}

// renewBatch renews several leases in one request. An item that the provider
// does not answer for is unknown, like any other failure.
func (e *engine) renewBatch(leases []*lease, part time.Duration) {
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
	b := bounded(e.m.lifetime, bound/part)
	defer b.cancel()
	ctx, span := e.m.telemetry.startBatch(b, live)
	defer span.End()
	results, err := request(ctx, e.m, &e.overdue, e.m.batch, abstractions.BatchRenewer.RenewBatch, reqs, lateBatch(live))
	if errors.Is(err, errOverdue) {
		for _, l := range live {
			l.inBatches.Add(1)
		}
	}
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

// lateBatch are leases whose batch was given up as failed.
type lateBatch []*lease

func (b lateBatch) repliedLate(results []abstractions.RenewResult, err error) {
	for i, l := range b {
		l.inBatches.Add(-1)
		if i < len(results) {
			l.repliedLate(results[i].Grant, results[i].Err)
		} else {
			l.repliedLate(abstractions.Grant{}, cmp.Or(err, errNoAnswer))
		}
	}
}

// tally counts the renewals of a batch that succeeded.
type tally map[*scope]int64
