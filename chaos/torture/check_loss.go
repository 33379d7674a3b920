package torture

// losses finds holders that did not learn of the end of their lease at once: by the time, or by an
// answer of the backend.
func (n *named) losses() {
	for _, t := range n.holds {
		for _, o := range n.claim(t.Claim).asked {
			if o.Verb == "renew" && o.Result == resultLost && o.Overrun == 0 && t.ended() > o.Return+n.Patience {
				n.violated(o.Return, "the backend said that the lease was lost (worker %d, claim %s), and its holder was not told", t.Worker, t.Claim)
				break
			}
		}
		late, told := n.h.late(t)
		switch {
		case t.Ending == endingGivenUp || t.Ending == endingAbandoned || t.Ending == endingKilled:
		case told && late > n.Patience:
			n.violated(t.Until, "the holder (worker %d, claim %s) heard of the end of its trust %s late", t.Worker, t.Claim, seconds(late))
		case !told && n.end > t.Until+n.Patience:
			n.violated(t.Until, "the holder (worker %d, claim %s) never heard of the end of its trust", t.Worker, t.Claim)
		}
	}
}
