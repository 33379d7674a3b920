package torture

import (
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// term is a grant by the checker's own stopwatch: from the call of the request
// to the end of the granted TTL, less the margin.
type term struct {
	heard time.Duration // the answer arrived
	until time.Duration
	late  bool // the answer arrived after the end of the request's context: a manager may ignore it
}

// term returns the term that an operation has granted. ok is false without a grant, or if the term was over
// when the answer arrived.
func (o *operation) term(margin time.Duration) (t term, ok bool) {
	t = term{o.Return, after(o.Call, o.TTL, margin), o.Overrun > 0}
	return t, o.extends() && t.until > t.heard
}

// trust returns the latest and the earliest end of a claim's trust, as known at a time.
func trust(terms []term, at time.Duration) (most, least time.Duration) {
	for _, t := range terms {
		if t.heard <= at {
			most = max(most, t.until)
		}
		if t.heard < at && !t.late {
			least = max(least, t.until)
		}
	}
	return most, least
}

// stopwatch sets the end of each hold's trust.
func (h *history) stopwatch(o *Options) {
	terms := map[string][]term{} // by claim
	for i := range h.Operations {
		p := &h.Operations[i]
		if t, ok := p.term(o.margin(p.TTL)); ok && p.Layer == layerClient {
			terms[p.Claim] = append(terms[p.Claim], t)
		}
	}
	for i := range h.Holds {
		t := &h.Holds[i]
		most, _ := trust(terms[t.Claim], t.ended())
		t.Until = max(t.Until, most)
	}
}

// trusts finds leases that reported more trust than the grants whose answers had arrived, or less,
// and leases that were given up before the end of that trust.
func (n *named) trusts() {
	for _, w := range n.writes {
		terms := n.claim(w.Claim).terms
		if !w.Trusted || len(terms) == 0 {
			continue
		}
		most, _ := trust(terms, w.Return)
		_, least := trust(terms, w.Call)
		if least == leasing.Infinite { // the manager may still be at work on that answer
			_, least = trust(terms, w.Call-n.Patience)
		}
		left := min(w.Remaining, math.MaxInt64-w.Return)
		switch {
		case w.Call+left > most || w.Call > most:
			n.violated(w.Call, "worker %d trusted claim %s until %s, and what it was granted ends at %s", w.Worker, w.Claim, seconds(w.Call+left), seconds(most))
		case least-w.Return-n.Patience > left:
			n.violated(w.Return, "worker %d trusted claim %s until %s only, and what it was granted ends at %s",
				w.Worker, w.Claim, seconds(w.Return+left), seconds(least))
		}
	}
	for _, e := range n.notices {
		_, least := trust(n.claim(e.Claim).terms, e.At)
		if e.Own && e.Reason == leasing.LostExpired && least > e.At+n.Patience && !slices.Contains(n.h.Killed, e.Worker) {
			n.violated(e.At, "claim %s of worker %d was given up as expired, and what it was granted ends at %s", e.Claim, e.Worker, seconds(least))
		}
	}
}
