package check

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// remembered is the least number of ended claims that a name refuses: see Provider.Acquire.
const remembered = 8

// ghosts finds claims that were granted after their release. A provider need remember only
// the last eight released claims of a name. Each voting server has eight of its own, so with
// votes a grant is a violation only if no other claim was released since.
func (n *named) ghosts() {
	for _, c := range n.claims {
		for layer, seen := range map[history.Layer][]*history.Operation{history.LayerClient: c.asked, history.LayerBackend: c.answered} {
			for _, o := range seen {
				if r := firstRelease(seen, o); o.Granted() && r != nil && !n.mayForget(seenBy(n.operations, layer), r, o) {
					n.violated(o.Return, "claim %s was granted (token %d) after its release at %s, one of the last of the name", o.Claim, o.Token, history.Seconds(r.Return))
				}
			}
		}
	}
}

// firstRelease returns the first release of a claim, if one of its releases had returned before an acquire of the
// claim. A claim that is released again may keep its place among the remembered claims.
func firstRelease(claim []*history.Operation, acquire *history.Operation) (release *history.Operation) {
	over := false
	for _, o := range claim {
		if o.Verb != "release" || o.Result != history.ResultDone && o.Result != history.ResultUnknown {
			continue
		}
		over = over || o.Result == history.ResultDone && o.Before(acquire)
		if release == nil || o.Call < release.Call {
			release = o
		}
	}
	if !over {
		return nil
	}
	return release
}

// mayForget reports whether so many other claims may have been released between a release
// and an acquire that a provider may forget the release. A break names no claim.
func (n *named) mayForget(operations []history.Operation, release, acquire *history.Operation) bool {
	others, breaks := map[string]bool{}, 0
	for _, o := range operations {
		if over := o.Result != history.ResultUnknown && o.Before(release); over || o.Call > acquire.Return {
			continue
		}
		switch {
		case o.Verb == "break":
			breaks++
		case o.Verb == "release" && o.Claim != release.Claim:
			others[o.Claim] = true
		}
	}
	since := len(others) + breaks
	return since >= remembered || n.Votes && since > 0
}

// refusals finds claims that were refused as released, without a release of the claim or a break of the name.
func (n *named) refusals() {
	for _, o := range n.operations {
		given := func(up history.Operation) bool {
			return (up.Verb == "break" || up.Verb == "release" && up.Claim == o.Claim) && up.Call <= o.Return
		}
		if o.Result == history.ResultReleased && !slices.ContainsFunc(n.operations, given) {
			n.violated(o.Return, "%s of claim %s was refused as that of a released claim, although no release and no break was sent", o.Verb, o.Claim)
		}
	}
}

// broken finds breaks that hit a different lease than they were meant for, claims that came back after a
// break, and renewals of a broken lease whose replies name a different break than the first break of the lease.
func (n *named) broken() {
	first, freed := map[int64]*history.Operation{}, map[int64]bool{} // the first break of a token's lease, and whether something has freed it
	tokens, ends := map[string]int64{}, map[string]time.Duration{}
	for i := range n.operations {
		o := &n.operations[i]
		if o.Layer != history.LayerBackend {
			continue
		}
		b := first[tokens[o.Claim]]
		over := b != nil && b.Result == history.ResultDone && b.Before(o)
		switch {
		case o.Verb == "break" && o.Result == history.ResultDone && o.IfToken != 0 && o.Token != o.IfToken:
			n.violated(o.Return, "a break that was meant for token %d has met token %d", o.IfToken, o.Token)
		case o.Verb == "break" && (o.Result == history.ResultUnknown || o.Token != 0 && !o.Vain) && first[o.Token] == nil:
			first[o.Token], freed[o.Token] = o, o.Immediate
		case o.Verb == "break" && o.Immediate:
			freed[o.Token] = true
		case o.Verb == "release":
			freed[tokens[o.Claim]] = true
		case over && o.Extends() && !(o.Granted() && n.mayForget(n.operations, b, o)):
			n.violated(o.Return, "%s, which was broken at %s", o, history.Seconds(b.Return))
		case over && o.Verb == "renew" && o.Why == leasing.LostBroken && !freed[b.Token] && first[0] == nil && o.Return < ends[o.Claim] && o.By != b.By && !n.freedMeanwhile(o, n.operations[i:]):
			n.violated(o.Return, "%s, as broken by %q, and the first break was by %q", o, o.By, b.By)
		}
		if o.Extends() {
			tokens[o.Claim], ends[o.Claim] = o.Token, after(o.Call, o.TTL, n.Margin(o.TTL))
			if o.TTL == leasing.Infinite { // broken, it lasts for the grace
				ends[o.Claim] = 0
			}
		}
	}
}

// freedMeanwhile reports whether one of the later operations may have freed the name before a renewal reached
// the backend. The record then shows that the lease was broken, but no longer the actor of the break.
func (n *named) freedMeanwhile(renewal *history.Operation, later []history.Operation) bool {
	return slices.ContainsFunc(later, func(o history.Operation) bool {
		return o.Layer == history.LayerBackend && o.Call < renewal.Return &&
			(o.Verb == "release" && o.Claim == renewal.Claim || o.Verb == "break" && o.Immediate)
	})
}
