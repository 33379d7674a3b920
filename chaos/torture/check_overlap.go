package torture

import (
	"cmp"
	"slices"
	"time"
)

// overlaps finds holders that trusted the name while another holder trusted its lease.
func (n *named) overlaps() {
	holds := slices.SortedStableFunc(slices.Values(n.holds), func(a, b hold) int { return cmp.Compare(a.From, b.From) })
	var before hold // the hold whose trust lasts longest
	var until time.Duration
	for _, t := range holds {
		end := n.exclusive(t)
		if end <= t.From { // it was given up, or broken, before its holder learned of the grant
			continue
		}
		if t.From < until {
			n.violated(t.From,
				"worker %d (claim %s, token %d) was granted the name while worker %d (claim %s, token %d) still trusted its lease, for %s more",
				t.Worker, t.Claim, t.Token, before.Worker, before.Claim, before.Token, seconds(until-t.From))
		}
		if end >= until {
			before, until = t, end
		}
	}
}

// exclusive returns the end of a hold's trust, or the earlier end of its exclusion if an operator
// has broken the lease: at once, or after the grace for a lease without an end. The token of a break
// identifies its lease. A break of unknown token may have met any lease.
func (n *named) exclusive(t hold) (end time.Duration) {
	end = t.trusted()
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
func (n *named) freed(b operation) time.Duration {
	if b.Immediate {
		return b.Call
	}
	return max(b.Call, after(b.Call, b.Grace, n.margin(b.Grace)))
}
