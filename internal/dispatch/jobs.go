package dispatch

import (
	"sync"
	"time"
)

// Jobs runs a bounded number of jobs at a time. Each job sends one request. The first bound, limit, protects the backend, and
// does not cause the loss of a lease: a job that has waited for a worker for a part of its request's time is overdue, and runs
// beyond the limit. The second bound, maxWorkers, holds for overdue jobs too, so that goroutines and requests stay few while a
// server hangs, whatever the number of leases.
type Jobs struct {
	spawn             func(f func()) bool
	ended             func() bool
	limit, maxWorkers int // bounds of the number of workers; maxWorkers is the bound while jobs are overdue

	mu      sync.Mutex
	waiting []*job // in order of arrival; some have been started
	overdue []*job // in the order in which they became overdue; some have been started
	workers int
}

// job is one request. The request gets only a part of its time while other jobs are overdue.
type job struct {
	do      func(divisor time.Duration)
	timer   *time.Timer // makes the job overdue; nil if the job need not wait
	started bool
}

// overdueDivisor divides the time that a request may take. A job that has waited for a worker
// for a quarter of that time is overdue. A request that is sent while other jobs of its kind are overdue
// and have no worker gets only a quarter of its time.
const overdueDivisor = 4

// MaxJobs bounds the requests of a kind in flight while jobs are overdue. If overdueFactor times the usual limit is more, that
// product is the bound.
const (
	MaxJobs       = 256
	overdueFactor = 16
)

// NewJobs returns a queue with limit workers. spawn runs a worker in a goroutine, and returns false if it can't. No job
// begins after ended has returned true. spawn and ended are called under the queue's lock.
func NewJobs(limit int, spawn func(f func()) bool, ended func() bool) *Jobs {
	return &Jobs{spawn: spawn, ended: ended, limit: limit, maxWorkers: max(MaxJobs, overdueFactor*limit)}
}

// Add starts or queues a job. The job is overdue when it has waited for the given time.
func (q *Jobs) Add(wait time.Duration, do func(divisor time.Duration)) {
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

// start runs a job in a new worker. Caller holds mu.
func (q *Jobs) start(j *job) {
	j.started = true
	divisor := q.divisor()
	if q.spawn(func() { q.work(j, divisor) }) {
		q.workers++
	}
}

func (q *Jobs) becomeOverdue(j *job) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case j.started:
	case q.workers < q.maxWorkers:
		q.start(j)
	default:
		q.overdue = append(q.overdue, j)
	}
}

// work runs jobs until none is left, or until there are more workers than the limit.
func (q *Jobs) work(j *job, divisor time.Duration) {
	for j != nil {
		j.do(divisor)
		j, divisor = q.next()
	}
}

// next returns the job that a worker runs next, or nil if the worker must end.
func (q *Jobs) next() (*job, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.overdue, q.waiting = dropStarted(q.overdue), dropStarted(q.waiting)
	var j *job
	switch {
	case q.ended():
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
	return j, q.divisor()
}

// divisor returns the current divisor of a request's time. Caller holds mu.
func (q *Jobs) divisor() time.Duration {
	if q.overdue = dropStarted(q.overdue); len(q.overdue) > 0 {
		return overdueDivisor
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
