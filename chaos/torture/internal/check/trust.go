package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

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
			n.violated(w.Call, "worker %d trusted claim %s until %s, and what it was granted ends at %s", w.Worker, w.Claim, history.Seconds(w.Call+left), history.Seconds(most))
		case least-w.Return-n.Patience > left:
			n.violated(w.Return, "worker %d trusted claim %s until %s only, and what it was granted ends at %s",
				w.Worker, w.Claim, history.Seconds(w.Return+left), history.Seconds(least))
		}
	}
	for _, e := range n.notices {
		_, least := trust(n.claim(e.Claim).terms, e.At)
		if e.Own && e.Reason == leasing.LostExpired && least > e.At+n.Patience && !slices.Contains(n.h.Killed, e.Worker) {
			n.violated(e.At, "claim %s of worker %d was given up as expired, and what it was granted ends at %s", e.Claim, e.Worker, history.Seconds(least))
		}
	}
}

// overlaps finds holders that trusted the name while another holder trusted its lease.
func (n *named) overlaps() {
	holds := slices.SortedStableFunc(slices.Values(n.holds), func(a, b history.Hold) int { return cmp.Compare(a.From, b.From) })
	var before history.Hold // the hold whose trust lasts longest
	var until time.Duration
	for _, t := range holds {
		end := n.exclusive(t)
		if end <= t.From { // it was given up, or broken, before its holder learned of the grant
			continue
		}
		if t.From < until {
			n.violated(t.From,
				"worker %d (claim %s, token %d) was granted the name while worker %d (claim %s, token %d) still trusted its lease, for %s more",
				t.Worker, t.Claim, t.Token, before.Worker, before.Claim, before.Token, history.Seconds(until-t.From))
		}
		if end >= until {
			before, until = t, end
		}
	}
}

// exclusive returns the end of a hold's trust, or the earlier end of its exclusion if an operator
// has broken the lease: at once, or after the grace for a lease without an end. The token of a break
// identifies its lease. A break of unknown token may have met any lease.
func (n *named) exclusive(t history.Hold) (end time.Duration) {
	end = t.Trusted()
	for _, b := range n.breaks[0] {
		if b.Call < end && (b.Return == 0 || b.Return >= t.From) {
			end = max(b.Call, t.From)
		}
	}
	for _, b := range n.breaks[t.Token] {
		if t.Token != 0 {
			end = min(end, n.freed(b))
		}
	}
	return end
}

// freed returns the earliest time at which a break frees the name.
func (n *named) freed(b history.Operation) time.Duration {
	if b.Immediate {
		return b.Call
	}
	return max(b.Call, after(b.Call, b.Grace, n.Margin(b.Grace)))
}
