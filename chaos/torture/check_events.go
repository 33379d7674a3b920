package torture

import (
	"slices"

	"github.com/distributedleasing/leasing"
)

// events finds leases of which an observer was not told exactly that they began, and then,
// once, how they ended. Both the lease's and the manager's observers have to be.
func (n *named) events() {
	type who struct {
		claim string
		own   bool
	}
	told := map[who][]leasing.EventKind{}
	for _, e := range n.notices {
		told[who{e.Claim, e.Own}] = append(told[who{e.Claim, e.Own}], e.Kind)
	}
	for _, t := range n.holds {
		if len(n.h.Notices) == 0 || slices.Contains(n.h.Killed, t.Worker) {
			continue
		}
		for _, own := range []bool{true, false} {
			kinds := told[who{t.Claim, own}]
			ok := len(kinds) == 2 && kinds[0] == leasing.EventAcquired &&
				(kinds[1] == leasing.EventLost || kinds[1] == leasing.EventReleased && t.Ending != endingLost && t.Ending != endingAbandoned)
			if !ok {
				n.violated(checkEvents, t.End, "%s of worker %d was told of claim %s, which was %s: %v", observerOf(own), t.Worker, t.Claim, t.Ending, kinds)
			}
		}
	}
}

func observerOf(own bool) string {
	if own {
		return "the lease's observer"
	}
	return "the manager's observer"
}
