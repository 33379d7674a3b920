package torture

import (
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// term is a grant as the checker counts it, by its own stopwatch: from the call of the request
// to the end of the TTL that was granted, less the margin.
type term struct {
	heard time.Duration // its answer came
	until time.Duration
	late  bool // its answer came after the end of the request's context: a manager may not use it
}

// terms are those of each claim, as its worker's manager was told of them. One that was over
// when its answer came is none.
func (h *history) terms(o *Options) map[string][]term {
	all := map[string][]term{}
	for i := range h.Operations {
		p := &h.Operations[i]
		if p.Layer != layerClient || !p.extends() {
			continue
		}
		if t := (term{p.Return, after(p.Call, p.TTL, o.margin(p.TTL)), p.Overrun > 0}); t.until > t.heard {
			all[p.Claim] = append(all[p.Claim], t)
		}
	}
	return all
}

// trust is for how long a claim may be trusted at a time, and for how long it must be.
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
	terms := h.terms(o)
	for i := range h.Holds {
		t := &h.Holds[i]
		end := t.End
		if end == 0 {
			end = math.MaxInt64
		}
		most, _ := trust(terms[t.Claim], end)
		t.Until = max(t.Until, most)
	}
}

// trusts finds holders who trusted their leases for longer than the grants that they had
// heard of, or were told to trust them for less.
func (n *named) trusts() {
	for _, w := range n.writes {
		terms := n.terms[w.Claim]
		if !w.Trusted || len(terms) == 0 {
			continue
		}
		most, _ := trust(terms, w.Return)
		_, least := trust(terms, w.Call)
		left := min(w.Remaining, math.MaxInt64-w.Return)
		switch {
		case w.Call+left > most || w.Call > most:
			n.violated(checkTrust, w.Call, "worker %d trusted claim %s until %s, and what it was granted ends at %s", w.Worker, w.Claim, seconds(w.Call+left), seconds(most))
		case least-w.Return-n.Patience > left:
			n.violated(checkTrust, w.Return, "worker %d trusted claim %s until %s only, and what it was granted ends at %s",
				w.Worker, w.Claim, seconds(w.Return+left), seconds(least))
		}
	}
	for _, e := range n.notices {
		if _, least := trust(n.terms[e.Claim], e.At); e.Own && e.Reason == leasing.LostExpired && least > e.At+n.Patience && !slices.Contains(n.h.Killed, e.Worker) {
			n.violated(checkTrust, e.At, "claim %s of worker %d was given up as expired, and what it was granted ends at %s", e.Claim, e.Worker, seconds(least))
		}
	}
}
