package torture

import "time"

// losses finds holders who were not told that their lease was over: by the time, or by the
// backend's word, at once.
func (n *named) losses() {
	word := map[string]time.Duration{} // of the backend, to the manager
	for _, o := range n.operations {
		if at, ok := word[o.Claim]; o.Layer == layerClient && o.Verb == "renew" && o.Result == resultLost && (!ok || o.Return < at) && o.Overrun == 0 {
			word[o.Claim] = o.Return
		}
	}
	for _, t := range n.holds {
		if at, ok := word[t.Claim]; ok && (t.End == 0 || t.End > at+n.Patience) {
			n.violated(checkLoss, at, "the backend said that the lease was lost (worker %d, claim %s), and its holder was not told", t.Worker, t.Claim)
		}
		late, told := n.h.late(t)
		switch {
		case t.Ending == endingGivenUp || t.Ending == endingAbandoned || t.Ending == endingKilled:
		case told && late > n.Patience:
			n.violated(checkLoss, t.Until, "the holder (worker %d, claim %s) heard of the end of its trust %s late", t.Worker, t.Claim, seconds(late))
		case !told && n.end > t.Until+n.Patience:
			n.violated(checkLoss, t.Until, "the holder (worker %d, claim %s) never heard of the end of its trust", t.Worker, t.Claim)
		}
	}
}
