package torture

import "slices"

// ghosts finds claims that were granted after they had been released. A provider
// need remember only the last claim that was given up of each name, so there must
// be no other that may have been given up since.
func (n *named) ghosts() {
	for _, c := range n.claims {
		for layer, seen := range map[layer][]*operation{layerClient: c.asked, layerBackend: c.answered} {
			for _, o := range seen {
				if r := latestRelease(seen, o); o.granted() && r != nil && !mayBeForgotten(seenBy(n.operations, layer), r, o) {
					n.violated(o.Return, "claim %s was granted (token %d) after its release at %s, the last of the name", o.Claim, o.Token, seconds(r.Return))
				}
			}
		}
	}
}

// latestRelease is the latest release of a claim that was over before an acquire of it: if another
// claim may have been given up since, that holds for those before, too.
func latestRelease(claim []*operation, acquire *operation) (release *operation) {
	for _, o := range claim {
		if o.Verb == "release" && o.Result == resultDone && o.Return < acquire.Call && (release == nil || o.Call > release.Call) {
			release = o
		}
	}
	return release
}

// mayBeForgotten says whether another claim may have been given up between a release
// and an acquire. A break names no claim.
func mayBeForgotten(operations []operation, release, acquire *operation) bool {
	return slices.ContainsFunc(operations, func(o operation) bool {
		ends := o.Verb == "break" || o.Verb == "release" && o.Claim != release.Claim
		over := o.Result != resultUnknown && o.Return < release.Call
		return ends && !over && o.Call <= acquire.Return
	})
}
