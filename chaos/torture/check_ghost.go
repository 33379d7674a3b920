package torture

// ghosts finds claims that were granted after their release. A provider need remember only
// the last eight released claims of a name. Each voting server has eight of its own, so with
// votes a grant is a violation only if no other claim was released since.
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

// firstRelease returns the first release of a claim, if one of its releases had returned before an acquire of the
// claim. A claim that is released again may keep its place among the remembered claims.
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

// mayForget reports whether so many other claims may have been released between a release
// and an acquire that a provider may forget the release. A break names no claim.
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

// remembered is the least number of ended claims that a name refuses: see Provider.Acquire.
const remembered = 8
