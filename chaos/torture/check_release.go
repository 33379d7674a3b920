package torture

import (
	"slices"

	"github.com/distributedleasing/leasing"
)

// releases finds leases that were released at the backend while their holder was still at
// work: the lease's context had not ended, or Do's function had not returned.
func (n *named) releases() {
	for _, o := range n.operations {
		if o.Early && n.claim(o.Claim).lost() > o.Call {
			n.violated(o.Call, "claim %s of worker %d was released while its holder was at work", o.Claim, o.Worker)
		}
		if o.Verb == "release" && o.Layer == layerClient && slices.ContainsFunc(n.holds, func(t hold) bool {
			return t.Claim == o.Claim && t.Reason == leasing.LostClosed && t.End <= o.Call
		}) {
			n.violated(o.Call, "claim %s of worker %d was released, whose manager was closed while it was in use", o.Claim, o.Worker)
		}
		if o.Verb == "release" && o.Layer == layerClient && !n.heedless && slices.ContainsFunc(n.holds, func(t hold) bool { // otherwise a renewal may have arrived too late to count
			return t.Claim == o.Claim && t.Reason == leasing.LostExpired && o.Call >= t.Until && o.Call < t.Until+n.margin(n.claim(o.Claim).shortest())-n.Patience
		}) {
			n.violated(o.Call, "claim %s of worker %d, which was lost, was released before the backend had to free it", o.Claim, o.Worker)
		}
	}
}
