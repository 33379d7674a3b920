package torture

import (
	"cmp"
	"slices"
	"time"
)

// grace is the time that a request in flight may take beyond a wait limit, and that the manager
// may wait for a reply after the end of its context.
const grace = time.Second + 50*time.Millisecond

// hangs finds requests to the backend that went on long after their context had ended, and
// acquires that did not return in time.
func (n *named) hangs() {
	gone := func(worker int) bool { return n.h.Closed == 0 || slices.Contains(n.h.Killed, worker) }
	for _, o := range n.operations {
		if o.Return == 0 && o.Result == resultUnknown && !gone(o.Worker) {
			n.violated(o.Call, "%s of claim %s by worker %d (%s) never returned", o.Verb, o.Claim, o.Worker, o.Layer)
		}
		if o.Overrun > n.Patience && !n.h.stopped(o.Worker, o.Call, o.Return) && !(n.heedless && o.Layer == layerClient) {
			n.violated(o.Return, "%s of claim %s (%s) went on for %s after its context had ended", o.Verb, o.Claim, o.Layer, seconds(o.Overrun))
		}
	}
	faults := n.faults()
	for _, w := range n.waits {
		bound, closing := w.Bound, n.h.closing(w.Worker, w.From, cmp.Or(w.To, never))
		switch {
		case closing != nil && !w.Try && w.To > closing.Return+n.Patience:
			n.violated(w.To, "an acquire of worker %d came back %s after the end of its manager", w.Worker, seconds(w.To-closing.Return))
		case closing == nil && !w.Try && !w.Got && w.Result == resultUnknown && w.To > 0 && w.To < min(w.Bound, n.h.FaultsEnd)-n.Patience:
			n.violated(w.To, "an acquire of worker %d gave up %s before the end of its wait limit", w.Worker, seconds(w.Bound-w.To))
		}
		if i, _ := slices.BinarySearch(faults, w.From-n.reach); i < len(faults) && faults[i] <= w.To {
			bound += grace
		}
		switch {
		case w.To == 0 && !gone(w.Worker):
			n.violated(w.From, "an acquire of worker %d never returned", w.Worker)
		case w.Bound > 0 && w.To > bound+n.Patience && !n.h.stopped(w.Worker, w.From, w.To):
			n.violated(w.To, "an acquire of worker %d came back %s after the end of its wait limit", w.Worker, seconds(w.To-bound))
		}
	}
}
