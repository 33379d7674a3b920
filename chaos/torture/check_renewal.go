package torture

import (
	"cmp"
	"time"

	"github.com/distributedleasing/leasing"
)

// renewals finds leases that were not renewed when they had to be: by the documented part of the
// TTL after the latest grant, and again before a lease is lost because that has failed.
func (n *named) renewals() {
	asked := map[string][]*operation{} // renewals of a claim, in their order
	granted, failed := map[string][]renewed{}, map[string][]renewed{}
	for i := range n.operations {
		o := &n.operations[i]
		if o.Layer != layerClient {
			continue
		}
		if o.Verb == "renew" {
			asked[o.Claim] = append(asked[o.Claim], o)
			if o.Result == resultUnknown && o.Return > 0 {
				failed[o.Claim] = append(failed[o.Claim], renewed{o, len(asked[o.Claim])})
			}
		}
		if o.extends() && o.Overrun == 0 && o.TTL != leasing.Infinite {
			granted[o.Claim] = append(granted[o.Claim], renewed{o, len(asked[o.Claim])})
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
		for _, g := range granted[t.Claim] {
			due := g.Call + time.Duration(part*float64(g.TTL)) + n.Patience
			if over := cmp.Or(t.End, t.Until); due < over && due > g.Return && !g.again(asked[t.Claim], due) {
				n.violated(checkRenewal, due, "claim %s of worker %d was not renewed by then, %s after its latest grant", t.Claim, t.Worker, seconds(due-g.Call))
				break
			}
		}
		n.retries(&t, failed[t.Claim], asked[t.Claim])
	}
}

// renewed is a request that was granted, or that has failed, and the number of renewals of its
// claim that were asked for up to then.
type renewed struct {
	*operation
	asked int
}

// again says whether another renewal was asked for by some time.
func (r renewed) again(asked []*operation, by time.Duration) bool {
	return r.asked < len(asked) && asked[r.asked].Call <= by
}

// retries finds a renewal that has failed, and that was not tried again while there was trust.
func (n *named) retries(t *hold, failed []renewed, asked []*operation) {
	for _, f := range failed {
		until, _ := trust(n.terms[t.Claim], f.Return)
		left := until - f.Return
		by := f.Return + left/2 + n.Patience
		if left > 100*time.Millisecond && left < time.Hour && by < cmp.Or(t.End, t.Until) && !f.again(asked, by) {
			n.violated(checkRenewal, by, "the renewal of claim %s by worker %d that failed at %s was not tried again by then", t.Claim, t.Worker, seconds(f.Return))
		}
	}
}
