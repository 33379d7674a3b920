package leasing

import (
	"sync"
	"time"
)

// jobQueue does jobs, which send one request each, a bounded number at a time. The
// first bound, limit, spares the backend, and costs no lease: a job that has waited
// for a place for a part of the time that its request may take is overdue, and is done
// without one. The second bound, most, holds for overdue jobs too: while a server hangs,
// goroutines and requests stay few, however many leases there are.
type jobQueue struct {
	m           *manager
	limit, most int // of workers; most: while jobs are overdue

	mu      sync.Mutex
	waiting []*job // in the order in which they came; some have been started
	overdue []*job // in the order in which they became so; some have been started
	workers int
}

// job is one request. It gets only a part of its time while others are overdue.
type job struct {
	do      func(part time.Duration)
	timer   *time.Timer // makes it overdue; nil if it need not wait
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

func newJobQueue(m *manager, limit int) *jobQueue {
	return &jobQueue{m: m, limit: limit, most: max(mostJobs, overdueFactor*limit)}
}

// add starts a job, or queues it. It is overdue when it has waited for the given time.
func (q *jobQueue) add(wait time.Duration, do func(part time.Duration)) {
	q.mu.Lock()
	defer q.mu.Unlock()
	j := &job{do: do}
	if q.workers < q.limit {
		q.start(j)
		return
	}
	j.timer = time.AfterFunc(wait, func() { q.becomeOverdue(j) })
	q.waiting = append(q.waiting, j)
}

// start does a job in a new worker. Caller holds mu.
func (q *jobQueue) start(j *job) {
	j.started = true
	part := q.part()
	if q.m.spawn(func() { q.work(j, part) }) {
		q.workers++
	}
}

func (q *jobQueue) becomeOverdue(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case j.started:
	case q.workers < q.most:
		q.start(j)
	default:
		q.overdue = append(q.overdue, j)
	}
}

// work does jobs until there are none, or more workers than there may be.
func (q *jobQueue) work(j *job, part time.Duration) {
	for j != nil {
		j.do(part)
		j, part = q.next()
	}
}

// next returns the job that a worker does next; nil if the worker is to end.
func (q *jobQueue) next() (*job, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.overdue, q.waiting = dropStarted(q.overdue), dropStarted(q.waiting)
	var j *job
	switch {
	case q.m.running.Err() != nil:
	case len(q.overdue) > 0:
		j = q.overdue[0]
	case len(q.waiting) > 0 && q.workers <= q.limit:
		j = q.waiting[0]
	}
	if j == nil {
		q.workers--
		return nil, 0
	}
	j.started = true
	j.timer.Stop()
	return j, q.part()
}

// part is which part of its time a request gets now. Caller holds mu.
func (q *jobQueue) part() time.Duration {
	if q.overdue = dropStarted(q.overdue); len(q.overdue) > 0 {
		return overduePart
	}
	return 1
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
