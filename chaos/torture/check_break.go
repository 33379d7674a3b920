package torture

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// broken finds breaks that hit a different lease than they were meant for, claims that came back after a
// break, and renewals of a broken lease whose replies name a different break than the first break of the lease.
func (n *named) broken() {
	first, freed := map[int64]*operation{}, map[int64]bool{} // the first break of a token's lease, and whether something has freed it
	tokens, ends := map[string]int64{}, map[string]time.Duration{}
	for i := range n.operations {
		o := &n.operations[i]
		if o.Layer != layerBackend {
			continue
		}
		b := first[tokens[o.Claim]]
		over := b != nil && b.Result == resultDone && b.before(o)
		switch {
		case o.Verb == "break" && o.Result == resultDone && o.IfToken != 0 && o.Token != o.IfToken:
			n.violated(o.Return, "a break that was meant for token %d has met token %d", o.IfToken, o.Token)
		case o.Verb == "break" && (o.Result == resultUnknown || o.Token != 0 && !o.Vain) && first[o.Token] == nil:
			first[o.Token], freed[o.Token] = o, o.Immediate
		case o.Verb == "break" && o.Immediate:
			freed[o.Token] = true
		case o.Verb == "release":
			freed[tokens[o.Claim]] = true
		case over && o.extends() && !(o.granted() && n.mayForget(n.operations, b, o)):
			n.violated(o.Return, "%s, which was broken at %s", o, seconds(b.Return))
		case over && o.Verb == "renew" && o.Why == leasing.LostBroken && !freed[b.Token] && first[0] == nil && o.Return < ends[o.Claim] && o.By != b.By && !n.freedMeanwhile(o, n.operations[i:]):
			n.violated(o.Return, "%s, as broken by %q, and the first break was by %q", o, o.By, b.By)
		}
		if o.extends() {
			tokens[o.Claim], ends[o.Claim] = o.Token, after(o.Call, o.TTL, n.margin(o.TTL))
			if o.TTL == leasing.Infinite { // broken, it lasts for the grace
				ends[o.Claim] = 0
			}
		}
	}
}

// freedMeanwhile reports whether one of the later operations may have freed the name before a renewal reached
// the backend. The record then shows that the lease was broken, but no longer the actor of the break.
func (n *named) freedMeanwhile(renewal *operation, later []operation) bool {
	return slices.ContainsFunc(later, func(o operation) bool {
		return o.Layer == layerBackend && o.Call < renewal.Return &&
			(o.Verb == "release" && o.Claim == renewal.Claim || o.Verb == "break" && o.Immediate)
	})
}
