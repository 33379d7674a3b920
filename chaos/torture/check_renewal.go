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
	for i := range n.operations {
		o := &n.operations[i]
		if o.Layer != layerClient {
			continue
		}
		if o.Verb == "renew" {
			asked[o.Claim] = append(asked[o.Claim], o.Call)
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
	}
}
