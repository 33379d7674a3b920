package torture

// ghosts finds claims that were granted after they had been released. A provider need
// remember only the last eight claims of a name that were given up, and several servers
// that vote each have eight of their own: there, no other may have been given up since.
func (n *named) ghosts() {
	for _, c := range n.claims {
		for layer, seen := range map[layer][]*operation{layerClient: c.asked, layerBackend: c.answered} {
			for _, o := range seen {
				if r := latestRelease(seen, o); o.granted() && r != nil && !n.mayForget(seenBy(n.operations, layer), r, o) {
					n.violated(o.Return, "claim %s was granted (token %d) after its release at %s, one of the last of the name", o.Claim, o.Token, seconds(r.Return))
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

// mayForget says whether so many other claims may have been given up between a release
// and an acquire that the release need not be remembered. A break names no claim.
func (n *named) mayForget(operations []operation, release, acquire *operation) bool {
	others, breaks := map[string]bool{}, 0
	for _, o := range operations {
		if over := o.Result != resultUnknown && o.Return < release.Call; over || o.Call > acquire.Return {
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

// remembered is how many ended claims a name refuses at least: see Provider.Acquire.
const remembered = 8
