package torture

// ghosts finds claims that were granted after they had been released. A provider need
// remember only the last eight claims of a name that were given up, and several servers
// that vote each have eight of their own: there, no other may have been given up since.
func (n *named) ghosts() {
	for _, c := range n.claims {
		for layer, seen := range map[layer][]*operation{layerClient: c.asked, layerBackend: c.answered} {
			for _, o := range seen {
				if r := firstRelease(seen, o); o.granted() && r != nil && !n.mayForget(seenBy(n.operations, layer), r, o) {
					n.violated(o.Return, "claim %s was granted (token %d) after its release at %s, one of the last of the name", o.Claim, o.Token, seconds(r.Return))
				}
			}
		}
	}
}

// firstRelease is the first of a claim, if one of them was over before an acquire of it. A claim that is given
// up again may keep its place among those that were given up.
func firstRelease(claim []*operation, acquire *operation) (release *operation) {
	over := false
	for _, o := range claim {
		if o.Verb != "release" || o.Result != resultDone && o.Result != resultUnknown {
			continue
		}
		over = over || o.Result == resultDone && o.before(acquire)
		if release == nil || o.Call < release.Call {
			release = o
		}
	}
	if !over {
		return nil
	}
	return release
}

// mayForget says whether so many other claims may have been given up between a release
// and an acquire that the release need not be remembered. A break names no claim.
func (n *named) mayForget(operations []operation, release, acquire *operation) bool {
	others, breaks := map[string]bool{}, 0
	for _, o := range operations {
		if over := o.Result != resultUnknown && o.before(release); over || o.Call > acquire.Return {
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
