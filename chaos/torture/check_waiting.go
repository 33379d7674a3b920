package torture

import (
	"cmp"
	"slices"
	"time"
)

// waiting finds waits that ended without a request or without the name of the holder,
// waiters that were served after a later one, and requests in a pause that the backend
// had asked for.
func (n *named) waiting() {
	asked := map[int]map[int][]*operation{} // by worker and wait
	for i := range n.operations {
		if o := &n.operations[i]; o.Wait > 0 && o.Layer == layerClient {
			if asked[o.Worker] == nil {
				asked[o.Worker] = map[int][]*operation{}
			}
			asked[o.Worker][o.Wait] = append(asked[o.Worker][o.Wait], o)
		}
	}
	faults := n.faults()
	for i, w := range n.waits {
		if len(asked) == 0 || w.To == 0 || w.To >= n.h.FaultsEnd || n.h.stopped(w.Worker, w.From, w.To) {
			continue
		}
		requests := asked[w.Worker][w.Number]
		if closing := n.h.closing(w.Worker, w.From, w.To); closing != nil {
			by := closing.Call + n.Patience
			if len(faults) > 0 {
				by += grace
			}
			if first := len(requests) == 0 || requests[0].Return < closing.Call; first && !w.Try && w.To > by { // its first request is not cut short
				n.violated(w.To, "an acquire of worker %d came back %s after its manager had begun to close", w.Worker, seconds(w.To-closing.Call))
			}
			continue
		}
		n.overtaken(w, n.waits[i+1:])
		if len(requests) == 0 {
			if late := w.To - w.Bound; !w.Try && !w.Leaves && w.Result != resultDone && late >= 0 && late < time.Second { // at that time the request's own timeout has passed, too
				n.violated(w.To, "an acquire of worker %d has not asked for the name", w.Worker)
			}
			continue
		}
		last := requests[len(requests)-1]
		if last.Result == resultHeld && last.Holder != "" && last.Overrun == 0 && last.Return <= min(w.To, cmp.Or(w.Bound, never)) && w.Holder != last.Holder && !n.heedless { // otherwise a request that has not returned in time may have blocked the next one
			n.violated(w.To, "an acquire of worker %d was told %q, %q, and the backend has said that claim %s has the name", w.Worker, w.Result, w.Holder, last.Holder)
		}
		n.hasty(requests)
	}
}

// overtaken finds a waiter of the same manager that came later and was served earlier. A waiter whose
// limit has passed may send its request out of turn.
func (n *named) overtaken(w wait, later []wait) {
	i := slices.IndexFunc(later, func(other wait) bool {
		return other.From > w.To || other.Worker == w.Worker && !w.Try && !other.Try && other.Got &&
			other.From > w.From+n.Patience && other.To < min(w.To, other.Bound)-n.Patience
	})
	if i >= 0 && later[i].From <= w.To {
		n.violated(later[i].To, "worker %d waited since %s, and one of the same manager who came at %s was served first", w.Worker, seconds(w.From), seconds(later[i].From))
	}
}

// hasty finds a request in a pause that the backend had asked for in an answer within the request's context.
func (n *named) hasty(requests []*operation) {
	for i, o := range requests[:len(requests)-1] {
		next := requests[i+1]
		if after := next.Call - o.Return; o.Overrun == 0 && after >= 0 && after < min(o.Pause, time.Minute)-n.Patience {
			n.violated(next.Call, "claim %s of worker %d was asked for %s after the backend had asked for a pause of %s", o.Claim, o.Worker, seconds(after), seconds(o.Pause))
		}
	}
}
