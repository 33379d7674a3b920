package torture

import "time"

// ghosts finds claims that were granted after they had been released. A provider
// need remember only the last claim that was given up of each name, so there must
// be no other that may have been given up since.
func (n *named) ghosts() {
	for _, layer := range layers {
		n.ghostsOf(seenBy(n.operations, layer))
	}
}

func (n *named) ghostsOf(seen []operation) {
	released := map[string][]operation{}
	for _, o := range seen {
		if o.Verb == "release" && o.Result == resultDone {
			released[o.Claim] = append(released[o.Claim], o)
		}
	}
	for i := range seen {
		if o := &seen[i]; o.granted() {
			for _, r := range released[o.Claim] {
				if r.Return < o.Call && !mayBeForgotten(seen, &r, o) {
					n.violated(checkGhost, o.Return, "claim %s was granted (token %d) after its release at %s, the last of the name", o.Claim, o.Token, seconds(r.Return))
					break
				}
			}
		}
	}
}

// mayBeForgotten says whether another claim may have been given up between a release
// and an acquire. A break names no claim.
func mayBeForgotten(operations []operation, release, acquire *operation) bool {
	for i := range operations {
		o := &operations[i]
		ends := o.Verb == "break" || o.Verb == "release" && o.Claim != release.Claim
		over := o.Result != resultUnknown && o.Return < release.Call
		if ends && !over && o.Call <= acquire.Return {
			return true
		}
	}
	return false
}

// unreleased finds claims that were refused as given up although nobody had done so.
func (n *named) unreleased() {
	claims, broken := newClaims(n.operations), time.Duration(never)
	for _, o := range n.operations {
		if o.Verb == "break" {
			broken = min(broken, o.Call)
		}
	}
	for _, o := range n.operations {
		if o.Result == resultReleased && o.Return < min(claims.of(o.Claim).left, broken) {
			n.violated(checkRefusal, o.Return, "%s of claim %s was refused as that of a claim which was given up, and nobody had done so", o.Verb, o.Claim)
		}
	}
}
