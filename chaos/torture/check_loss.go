package torture

// losses finds holders who were not told that their lease was over.
func (n *named) losses() {
	for _, t := range n.holds {
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
