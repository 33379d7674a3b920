package torture

import (
	"cmp"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// renewals finds leases that were not renewed when they had to be: by the documented part of the
// TTL after the latest grant, and again before a lease is lost because that has failed.
func (n *named) renewals() {
	asked := map[string][]time.Duration{} // when a claim's renewals were
	granted := map[string][]*operation{}
	n.failed = map[string][]*operation{}
	for i := range n.operations {
		o := &n.operations[i]
		if o.Layer != layerClient {
			continue
		}
		if o.Verb == "renew" {
			asked[o.Claim] = append(asked[o.Claim], o.Call)
			if o.Result == resultUnknown && o.Return > 0 {
				n.failed[o.Claim] = append(n.failed[o.Claim], o)
			}
		}
		if o.extends() && o.Overrun == 0 && o.TTL != leasing.Infinite {
			granted[o.Claim] = append(granted[o.Claim], o)
		}
	}
	if n.heedless { // requests that don't return may keep others from being sent
		return
	}
	part := cmp.Or(n.Manager.RenewFraction, 0.6) // the documented default
	for _, t := range n.holds {
		if !t.Renews || n.Manager.RenewCadence != 0 || n.Manager.NoAutoRenew || n.h.stopped(t.Worker, t.From, t.trusted()) {
			continue
		}
		slices.Sort(asked[t.Claim])
		for _, g := range granted[t.Claim] {
			due := g.Call + time.Duration(part*float64(g.TTL)) + n.Patience
			i, _ := slices.BinarySearch(asked[t.Claim], g.Call+1)
			if over := cmp.Or(t.End, t.Until); due < over && due > g.Return && (i == len(asked[t.Claim]) || asked[t.Claim][i] > due) {
				n.violated(checkRenewal, due, "claim %s of worker %d was not renewed by then, %s after its latest grant", t.Claim, t.Worker, seconds(due-g.Call))
				break
			}
		}
		n.retries(&t, asked[t.Claim])
	}
}

// retries finds a renewal that has failed, and that was not tried again while there was trust.
func (n *named) retries(t *hold, asked []time.Duration) {
	for _, f := range n.failed[t.Claim] {
		until, _ := trust(n.terms[t.Claim], f.Return)
		left := until - f.Return
		by := f.Return + left/2 + n.Patience
		i, _ := slices.BinarySearch(asked, f.Call+1)
		if left > 100*time.Millisecond && left < time.Hour && by < cmp.Or(t.End, t.Until) && (i == len(asked) || asked[i] > by) {
			n.violated(checkRenewal, by, "the renewal of claim %s by worker %d that failed at %s was not tried again by then", t.Claim, t.Worker, seconds(f.Return))
		}
	}
}
