package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// waiting finds waits that ended without a request or without the name of the holder. It also finds
// waiters that were served after a later waiter, and requests that were sent during a pause for
// which the backend had asked.
func (n *nameHistory) waiting() {
	requestsOf := map[int]map[int][]*history.Operation{} // by worker and wait
	for i := range n.operations {
		if o := &n.operations[i]; o.Wait > 0 && o.Layer == history.LayerClient {
			if requestsOf[o.Worker] == nil {
				requestsOf[o.Worker] = map[int][]*history.Operation{}
			}
			requestsOf[o.Worker][o.Wait] = append(requestsOf[o.Worker][o.Wait], o)
		}
	}
	faults := n.faults()
	for i, w := range n.waits {
		if len(requestsOf) == 0 || w.To == 0 || w.To >= n.h.FaultsEnd || n.h.Stopped(w.Worker, w.From, w.To) {
			continue
		}
		requests := requestsOf[w.Worker][w.Number]
		if closing := n.h.Closing(w.Worker, w.From, w.To); closing != nil {
			by := closing.Call + n.Patience
			if len(faults) > 0 {
				by += Grace
			}
			if first := len(requests) == 0 || requests[0].Return < closing.Call; first && !w.Try && w.To > by { // Close does not cut the first request of a wait short
				n.violation(w.To, "an acquire of worker %d came back %s after its manager had begun to close", w.Worker, history.Seconds(w.To-closing.Call))
			}
			continue
		}
		n.overtaking(w, n.waits[i+1:])
		if len(requests) == 0 {
			if late := w.To - w.Bound; !w.Try && !w.Leaves && w.Result != history.ResultDone && late >= 0 && late < time.Second { // at that time the request's own timeout has passed, too
				n.violation(w.To, "an acquire of worker %d has not asked for the name", w.Worker)
			}
			continue
		}
		last := requests[len(requests)-1]
		if last.Result == history.ResultHeld && last.Holder != "" && last.Overrun == 0 && last.Return <= min(w.To, cmp.Or(w.Bound, history.Never)) && w.Holder != last.Holder && !n.Heedless { // otherwise a request that has not returned in time may have blocked the next one
			n.violation(w.To, "an acquire of worker %d returned %q, %q, and the backend has said that claim %s has the name", w.Worker, w.Result, w.Holder, last.Holder)
		}
		n.earlyRequests(requests)
	}
}

// overtaking finds a waiter of the same manager that came later and was served earlier. A waiter whose
// limit has passed may send its request out of turn.
func (n *nameHistory) overtaking(w history.Wait, later []history.Wait) {
	i := slices.IndexFunc(later, func(other history.Wait) bool {
		return other.From > w.To || other.Worker == w.Worker && !w.Try && !other.Try && other.Got &&
			other.From > w.From+n.Patience && other.To < min(w.To, other.Bound)-n.Patience
	})
	if i >= 0 && later[i].From <= w.To {
		n.violation(later[i].To, "worker %d waited since %s, and one of the same manager who came at %s was served first", w.Worker, history.Seconds(w.From), history.Seconds(later[i].From))
	}
}

// earlyRequests finds a request that was sent during a pause for which the backend had asked. It ignores an answer
// that came after the end of the request's context.
func (n *nameHistory) earlyRequests(requests []*history.Operation) {
	for i, o := range requests[:len(requests)-1] {
		next := requests[i+1]
		if after := next.Call - o.Return; o.Overrun == 0 && after >= 0 && after < min(o.Pause, time.Minute)-n.Patience {
			n.violation(next.Call, "claim %s of worker %d was asked for %s after the backend had asked for a pause of %s", o.Claim, o.Worker, history.Seconds(after), history.Seconds(o.Pause))
		}
	}
}

// hangs finds requests to the backend that went on long after their context had ended, and
// acquires that did not return in time.
func (n *nameHistory) hangs() {
	gone := func(worker int) bool { return n.h.Closed == 0 || slices.Contains(n.h.Killed, worker) }
	for _, o := range n.operations {
		if o.Return == 0 && o.Result == history.ResultUnknown && !gone(o.Worker) {
			n.violation(o.Call, "%s of claim %s by worker %d (%s) never returned", o.Verb, o.Claim, o.Worker, o.Layer)
		}
		if o.Overrun > n.Patience && !n.h.Stopped(o.Worker, o.Call, o.Return) && !(n.Heedless && o.Layer == history.LayerClient) {
			n.violation(o.Return, "%s of claim %s (%s) went on for %s after its context had ended", o.Verb, o.Claim, o.Layer, history.Seconds(o.Overrun))
		}
	}
	faults := n.faults()
	for _, w := range n.waits {
		bound, closing := w.Bound, n.h.Closing(w.Worker, w.From, cmp.Or(w.To, history.Never))
		switch {
		case closing != nil && !w.Try && w.To > closing.Return+n.Patience:
			n.violation(w.To, "an acquire of worker %d came back %s after the end of its manager", w.Worker, history.Seconds(w.To-closing.Return))
		case closing == nil && !w.Try && !w.Got && w.Result == history.ResultUnknown && w.To > 0 && w.To < min(w.Bound, n.h.FaultsEnd)-n.Patience:
			n.violation(w.To, "an acquire of worker %d gave up %s before the end of its wait limit", w.Worker, history.Seconds(w.Bound-w.To))
		}
		if i, _ := slices.BinarySearch(faults, w.From-n.Reach); i < len(faults) && faults[i] <= w.To {
			bound += Grace
		}
		switch {
		case w.To == 0 && !gone(w.Worker):
			n.violation(w.From, "an acquire of worker %d never returned", w.Worker)
		case w.Bound > 0 && w.To > bound+n.Patience && !n.h.Stopped(w.Worker, w.From, w.To):
			n.violation(w.To, "an acquire of worker %d came back %s after the end of its wait limit", w.Worker, history.Seconds(w.To-bound))
		}
	}
}
