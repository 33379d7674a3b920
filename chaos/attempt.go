package chaos

import (
	"cmp"
	"errors"
	"math"

	"github.com/distributedleasing/leasing/abstractions"
)

// tries reports whether an attempt is within the bounds.
func (m Match) tries(attempt int) bool {
	least, most := m.attempts()
	return attempt >= least && attempt <= most
}

// attempts returns the bounds of the attempt number.
func (m Match) attempts() (least, most int) {
	least = max(m.MinAttempt, 1)
	if m.OnlyOnRetry {
		least = max(least, 2)
	}
	return least, cmp.Or(m.MaxAttempt, math.MaxInt)
}

// request identifies the request of which an operation is an attempt. Without an ID the owner takes
// its place.
func (o operation) request() identity { return identity{o.op, o.name, cmp.Or(o.id, o.owner)} }

// ended counts a failed attempt, and clears the failures of a request that has been answered.
func (p *Provider) ended(o operation, err error) {
	if o.attempt == 1 && err == nil || o.attempt == 0 { // nothing to clear, or never decided
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count(o, err)
}

// count does the work of ended. Caller holds mu.
func (p *Provider) count(o operation, err error) {
	switch request := o.request(); {
	case !isAnswer(err):
		p.failed.add(request)
	case p.failed.of(request) > 0:
		p.failed.put(request, 0)
	}
}

// isAnswer reports whether an error, or nil, is an answer to a request, after which
// the request is not repeated.
func isAnswer(err error) bool {
	if err == nil {
		return true
	}
	for _, answer := range []error{
		abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrInvalid, abstractions.ErrUnsupported, abstractions.ErrClosed,
	} {
		if errors.Is(err, answer) {
			return true
		}
	}
	return false
}

// endedItems counts the attempts of a batch. An item without an answer has the error of
// the batch.
func (p *Provider) endedItems(reqs []abstractions.RenewRequest, results []abstractions.RenewResult, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for n, req := range reqs {
		result := abstractions.RenewResult{Err: err}
		if n < len(results) && (results[n].Err != nil || results[n].Grant.ID != "") {
			result = results[n]
		}
		p.count(renewal(req), result.Err)
	}
}
