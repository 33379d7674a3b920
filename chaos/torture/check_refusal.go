package torture

import "slices"

// refusals finds claims that were refused as released, without a release of the claim or a break of the name.
func (n *named) refusals() {
	for _, o := range n.operations {
		given := func(up operation) bool {
			return (up.Verb == "break" || up.Verb == "release" && up.Claim == o.Claim) && up.Call <= o.Return
		}
		if o.Result == resultReleased && !slices.ContainsFunc(n.operations, given) {
			n.violated(o.Return, "%s of claim %s was refused as that of a released claim, although no release and no break was sent", o.Verb, o.Claim)
		}
	}
}
