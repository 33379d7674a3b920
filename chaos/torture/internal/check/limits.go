package check

import (
	"math"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// Limits are the facts about a run, besides its history, that the checks need.
type Limits struct {
	Workers        int           // the number of workers that compete for the names
	Patience       time.Duration // the tolerance for actions that should happen at once
	RequestTimeout time.Duration
	MaxPoll        time.Duration
	RenewFraction  float64       // the fraction of a TTL after which a lease is renewed; 0 if it varies
	DriftFactor    float64       // a fraction of a TTL: see Margin
	DriftFloor     time.Duration // see Margin
	SearchSteps    int           // bounds the search for an order, for each name and layer
	Lateness       leasing.Lateness
	Reach          time.Duration // the longest time for which a fault may have consequences
	Heedless       bool          // faults outlast the contexts of requests
	Pushes         bool          // the backend wakes waiters
	Votes          bool          // the backend consists of voting servers: see run.Options.Votes
	// AssumptionsBroken says that the run breaks an assumption of the provider, so that the strict checks can't be made.
	AssumptionsBroken bool
}

// Margin returns the part of a TTL that the managers do not trust, to allow for differences
// between clocks.
func (l *Limits) Margin(ttl time.Duration) time.Duration {
	return time.Duration(math.Ceil(float64(ttl)*l.DriftFactor)) + l.DriftFloor
}

// Grace is the time that a request in flight may take beyond a wait limit. It is also the time for
// which the manager may wait for a reply after the end of the request's context.
const Grace = time.Second + 50*time.Millisecond

// after returns the time at which a lease runs out by the fastest clock.
func after(now, ttl, margin time.Duration) time.Duration {
	if ttl == leasing.Infinite {
		return math.MaxInt64
	}
	return now + ttl - margin
}

// term is the trust in a grant by the checker's own stopwatch: from the call of the request to
// the end of the granted TTL, less the margin.
type term struct {
	answered time.Duration // when the answer arrived
	until    time.Duration
	late     bool // the answer arrived after the end of the request's context: a manager may ignore it
}

// granted returns the term that an operation has granted. ok is false without a grant, or if the term was over
// when the answer arrived.
func (l *Limits) granted(o *history.Operation) (t term, ok bool) {
	t = term{o.Return, after(o.Call, o.TTL, l.Margin(o.TTL)), o.Overrun > 0}
	return t, o.Extends() && t.until > t.answered
}

// trust returns the latest and the earliest end of a claim's trust, as known at the given time.
func trust(terms []term, at time.Duration) (most, least time.Duration) {
	for _, t := range terms {
		if t.answered <= at {
			most = max(most, t.until)
		}
		if t.answered < at && !t.late {
			least = max(least, t.until)
		}
	}
	return most, least
}

// Stopwatch sets the end of each hold's trust.
func Stopwatch(h *history.History, l Limits) {
	terms := map[string][]term{} // by claim
	for i := range h.Operations {
		p := &h.Operations[i]
		if t, ok := l.granted(p); ok && p.Layer == history.LayerClient {
			terms[p.Claim] = append(terms[p.Claim], t)
		}
	}
	for i := range h.Holds {
		t := &h.Holds[i]
		most, _ := trust(terms[t.Claim], t.Ended())
		t.Until = max(t.Until, most)
	}
}
