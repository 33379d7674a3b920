package leasing

import (
	"cmp"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/lifecycle"
)

// engine sends the requests that the manager makes by itself: renewals, renewals of
// leases whose last renewal failed, and clean-ups. Each kind has a queue, so leases
// whose renewals hang don't keep others from being renewed.
type engine struct {
	m *manager
	// gathered has the leases that came due since the last dispatch. Only the loop uses the map.
	gathered map[batchKey][]*lease
	// overdue counts batches. It does not count a lease's own requests.
	overdue overdue

	renewals, retries, cleanups *jobQueue
}

// batchKey groups renewals that may share a request: a batch is bounded by its
// most urgent item, so it takes leases with about the same time left (to a
// power of two). The more often leases have failed, the fewer share a
// request.
type batchKey struct {
	bound    int // the logarithm of the bound of one attempt
	failures int
}

func newEngine(m *manager) *engine {
	limit := m.options.Tuning.RenewConcurrency
	return &engine{
		m: m, gathered: map[batchKey][]*lease{}, overdue: overdue{limit: mostJobs},
		renewals: newJobQueue(m, limit), retries: newJobQueue(m, limit), cleanups: newJobQueue(m, max(1, limit/4)),
	}
}

// gather takes a lease whose renewal is due. The next dispatch sends the renewal.
func (e *engine) gather(l *lease, left time.Duration) {
	bound := lifecycle.AttemptBound(left, e.m.options.Tuning.RequestTimeout)
	key := batchKey{bound: bits.Len64(uint64(bound)), failures: min(l.life.Failures(), 2)}
	e.gathered[key] = append(e.gathered[key], l)
}

// dispatch queues the gathered leases. Before a failure up to RenewBatch leases share a request, after
// one failure a sixteenth of that number, and after two each lease has its own request.
func (e *engine) dispatch() {
	for key, leases := range e.gathered {
		q, size := e.renewals, 1
		if key.failures > 0 {
			q = e.retries
		}
		if e.m.batch != nil {
			size = max(1, e.m.options.Tuning.RenewBatch>>(4*key.failures))
		}
		for batch := range slices.Chunk(leases, size) {
			q.add(time.Duration(1)<<max(key.bound-1, 0)/overduePart, func(part time.Duration) {
				if len(batch) > 1 {
					e.renewBatch(batch, part)
				} else {
					_ = batch[0].renewAlone(e.m.running, part) // the lease has noted it
				}
			})
		}
		delete(e.gathered, key)
	}
}

// renewBatch renews several leases in one request. An item that the provider
// does not answer for is unknown, like any other failure.
func (e *engine) renewBatch(leases []*lease, part time.Duration) {
	sent := e.m.clock.Now()
	bound := e.m.options.Tuning.RequestTimeout
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
	b := bounded(e.m.running, bound/part)
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
	case errors.Is(err, ErrLost): // the error does not say which leases
		err = fmt.Errorf("%w: %v", errNoAnswer, err)
	}
	now, measured := e.m.clock.Now(), map[*scope]renewed{}
	for i, l := range live {
		result := abstractions.RenewResult{Err: err}
		if i < len(results) && (results[i].Err != nil || results[i].Grant.ID != "") {
			result = results[i]
		}
		if result.Err != nil && cutOff(ctx, result.Err) {
			result.Err = lifecycle.NoAnswer(result.Err)
		}
		_ = l.finishRenewal(sent, now, result.Grant, result.Err, measured) // the lease has noted it
	}
	for s, r := range measured {
		e.m.telemetry.renewals(s, now.Mono-sent.Mono, r)
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
