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
	if n.heedless || n.Manager.RenewCadence != 0 || n.Manager.NoAutoRenew { // requests that don't return may keep others from being sent
		return
	}
	for _, t := range n.holds {
		if !t.Renews || n.h.stopped(t.Worker, t.From, t.trusted()) {
			continue
		}
		c, tardy := n.claim(t.Claim), false
		for i, o := range c.asked {
			again := func(by time.Duration) bool {
				return slices.ContainsFunc(c.asked[i+1:], func(next *operation) bool { return next.Verb == "renew" && next.Call <= by })
			}
			switch {
			case !tardy && o.extends() && o.Overrun == 0 && o.TTL != leasing.Infinite:
				due := o.Call + time.Duration(cmp.Or(n.Manager.RenewFraction, 0.6)*float64(o.TTL)) + n.Patience // the documented default
				if tardy = due < cmp.Or(t.End, t.Until) && due > o.Return && !again(due); tardy {
					n.violated(due, "claim %s of worker %d was not renewed by then, %s after its latest grant", t.Claim, t.Worker, seconds(due-o.Call))
				}
			case o.Verb == "renew" && o.Result == resultUnknown && o.Return > 0: // it has failed, and is tried again while there is trust
				until, _ := trust(c.terms, o.Return)
				left := until - o.Return
				by := o.Return + left/2 + n.Patience
				if left > 100*time.Millisecond && left < time.Hour && by < cmp.Or(t.End, t.Until) && !again(by) {
					n.violated(by, "the renewal of claim %s by worker %d that failed at %s was not tried again by then", t.Claim, t.Worker, seconds(o.Return))
				}
			}
		}
	}
}
