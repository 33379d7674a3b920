package torture

import (
	"math"
	"slices"
	"time"
)

// cleanups finds claims that nobody uses any more, or that nobody was told to have, and that a
// manager leaves to run out at the backend: each has to be released, again and again until
// that is answered, for a TTL after the manager's latest request. One that is delivered later
// than that lands on nobody's watch.
func (n *named) cleanups() {
	type use struct {
		last     *operation   // at the backend, that the lease lasts from
		sent     *operation   // by the manager, that asks for the lease last
		releases []*operation // by the manager
		over     bool         // the backend was told, or refused
		// The calls of the latest grant that the manager was told of, and of its latest
		// request without an answer.
		told, unheard time.Duration
	}
	claims := map[string]*use{}
	for i := range n.operations {
		o := &n.operations[i]
		u := claims[o.Claim]
		if u == nil {
			u = &use{told: -1, unheard: -1}
			claims[o.Claim] = u
		}
		if o.Layer == layerClient && (o.Verb == "acquire" || o.Verb == "renew") {
			u.sent = o
		}
		switch {
		case o.Layer == layerBackend && o.extends():
			u.last = o
		case o.Result == resultLost || o.Result == resultReleased || o.Layer == layerBackend && o.Verb == "release" && o.Result == resultDone:
			u.over = true
		case o.Layer == layerClient && o.Verb == "release":
			u.releases = append(u.releases, o)
		case o.Layer == layerClient && o.extends():
			u.told = max(u.told, o.Call)
		case o.Layer == layerClient && o.Result == resultUnknown:
			u.unheard = max(u.unheard, o.Call)
		}
	}
	given := map[string]bool{}
	for _, t := range n.holds {
		given[t.Claim] = t.Ending == endingGivenUp && t.Reason == ""
	}
	for claim, u := range claims {
		if u.last == nil || u.over || n.ended(u.last) {
			continue
		}
		if !given[claim] && (u.unheard <= u.told || u.last.Call <= u.told) {
			continue
		}
		slack := 2*n.margin(u.last.TTL) + n.Patience
		until := min(after(u.last.Return, u.last.TTL, slack), after(u.sent.Call, u.sent.TTL, slack))
		tried := time.Duration(math.MinInt64)
		for _, o := range u.releases {
			tried = max(tried, o.Call)
		}
		if until < n.h.FaultsEnd && tried < until-n.Manager.RequestTimeout-2*time.Second {
			n.violated(checkCleanup, until, "claim %s of worker %d was left to run out at the backend, and its last release was sent at %s", claim, u.last.Worker, seconds(tried))
		}
	}
}

// ended says that a lease may have ended otherwise since an operation: by a break, or with its
// manager.
func (n *named) ended(since *operation) bool {
	broken := slices.ContainsFunc(n.operations, func(o operation) bool { return o.Verb == "break" && o.Call >= since.Call-n.reach })
	return broken || slices.ContainsFunc(n.h.Holds, func(t hold) bool {
		return t.Worker == since.Worker && (t.Ending == endingAbandoned || t.Ending == endingKilled) && t.End >= since.Call-n.reach
	}) || slices.Contains(n.h.Killed, since.Worker)
}
