package check

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// span is a period of time.
type span struct {
	from, to time.Duration
	ranOut   string // the period began when the lease of this claim ended without a release; "" otherwise
	token    int64  // the token of the claim that holds the name
}

// liveness finds periods in which a name was free and had a waiter, and was not granted. It also
// finds waiters that were overtaken too often.
func (n *nameHistory) liveness() {
	faults := n.faults()
	free := n.free()
	for _, w := range n.waits {
		to := cmp.Or(w.To, n.end)
		if w.Try || n.h.Stopped(w.Worker, w.From, to) {
			continue
		}
		for i, _ := slices.BinarySearchFunc(free, w.From, func(s span, at time.Duration) int { return cmp.Compare(s.to, at) }); i < len(free) && free[i].from < to; i++ {
			idle := span{from: max(free[i].from, w.From), to: min(free[i].to, to), ranOut: free[i].ranOut}
			if idle.to-idle.from <= n.Patience {
				continue
			}
			if bound := n.idleBound(faults, w.Worker, idle); idle.to-idle.from > bound {
				n.violation(idle.from, "worker %d wanted the name, which was free, for %s: it may take %s",
					w.Worker, history.Seconds(idle.to-idle.from), history.Seconds(bound))
			}
		}
	}
	n.starvation(faults)
}

// idleBound returns the longest time for which a name may be free while a worker waits. It is the time of a
// hand-over if no fault has happened since the first of the present waiters began to wait, and otherwise the time
// until a waiter polls and gets an answer. No wake-up is sent when a lease runs out. A waiter knows the end of
// the lease that its refusal named, and notices the end of other leases within ten polls. Ten polls are also
// allowed after a release whose wake-up went to a waiter that was leaving.
func (n *nameHistory) idleBound(faults []time.Duration, worker int, idle span) time.Duration {
	if i, _ := slices.BinarySearch(faults, n.firstWait(idle.from)-n.Reach); i == len(faults) || faults[i] > idle.to {
		switch {
		case !n.Pushes:
			return 2*n.MaxPoll + n.Patience
		case idle.ranOut != "" && !n.knowsEnd(worker, idle), n.waiterLeft(idle.from):
			return 10*n.MaxPoll + n.Patience
		case n.mayYield(worker, idle.from, idle.to):
			return n.MaxPoll + n.Patience
		}
		return n.Patience
	}
	longest, last := time.Duration(0), idle.from // the longest time without a fault
	for i, _ := slices.BinarySearch(faults, idle.from); i < len(faults) && faults[i] < idle.to; i++ {
		longest, last = max(longest, faults[i]-last), faults[i]
	}
	bound := 10*n.MaxPoll + 3*n.RequestTimeout + n.Patience
	if max(longest, idle.to-last) <= bound {
		return history.Never
	}
	return bound
}

// knowsEnd reports whether a worker's waiter was refused because of the lease that ran out. Once that claim's wait
// has ended, the worker's other claims do not know this end.
func (n *nameHistory) knowsEnd(worker int, idle span) bool {
	for _, c := range n.claims {
		refused := slices.IndexFunc(c.clientOps, func(o *history.Operation) bool {
			return o.Worker == worker && o.Holder == idle.ranOut && o.Return <= idle.from
		})
		if refused >= 0 && slices.ContainsFunc(c.clientOps[refused:], func(o *history.Operation) bool { return o.Verb == "acquire" && o.Call >= idle.from }) {
			return true
		}
	}
	return false
}

// waiterLeft reports whether a waiter left around the given time. A wake-up that such a waiter has just
// got is lost.
func (n *nameHistory) waiterLeft(at time.Duration) bool {
	return slices.ContainsFunc(n.waits, func(w history.Wait) bool { return !w.Try && !w.Got && w.To >= at-n.Patience && w.To <= at+n.Patience })
}

// mayYield reports whether a manager has just held the name. The manager may then leave the name to
// others for a moment, at most for MaxPoll.
func (n *nameHistory) mayYield(worker int, from, to time.Duration) bool {
	return slices.ContainsFunc(n.holds, func(t history.Hold) bool {
		return t.Worker == worker && t.From < to && t.End > from-2*n.MaxPoll
	})
}

// firstWait returns the time at which the first of the waiters at the given time began to wait.
func (n *nameHistory) firstWait(at time.Duration) time.Duration {
	first := at
	for _, w := range n.waits {
		if w.From <= at && (w.To == 0 || w.To >= at) {
			first = min(first, w.From)
		}
	}
	return first
}

// free returns the periods in which no claim can have held the name, in order.
func (n *nameHistory) free() (free []span) {
	var taken []span
	for id, c := range n.claims {
		s := span{from: history.Never, ranOut: id}
		for _, o := range c.backendOps {
			switch {
			case o.Verb == "acquire" && o.Result == history.ResultUnknown:
				s.from, s.to = min(s.from, o.Call), history.Never
			case o.Extends():
				s.from, s.to, s.token = min(s.from, o.Call), max(s.to, n.latestEnd(o)), o.Token
			}
		}
		for _, o := range c.backendOps {
			if o.Verb == "release" && o.Result == history.ResultDone && o.Call >= s.from && o.Return < s.to {
				s.to, s.ranOut = o.Return, ""
			}
		}
		for _, o := range n.operations {
			if o.Verb == "break" && o.Immediate && o.Result == history.ResultDone && o.Token != 0 && o.Token == s.token && o.Return < s.to {
				s.to, s.ranOut = o.Return, ""
			}
		}
		if s.from != history.Never {
			taken = append(taken, s)
		}
	}
	slices.SortFunc(taken, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var last span // the latest to end
	for _, s := range append(taken, span{from: n.h.FaultsEnd}) {
		if s.from > last.to {
			free = append(free, span{from: last.to, to: s.from, ranOut: last.ranOut})
		}
		if s.to > last.to {
			last = s
		}
	}
	return free
}

// starvation finds waiters that were overtaken more often than chance explains, without a fault
// since the beginning of the wait.
func (n *nameHistory) starvation(faults []time.Duration) {
	var grants []time.Duration
	for _, o := range n.operations {
		if o.Layer == history.LayerBackend && o.Granted() {
			grants = append(grants, o.Call)
		}
	}
	slices.Sort(grants)
	for _, w := range n.waits {
		from, to := w.From, cmp.Or(w.To, n.end)
		if n.mayYield(w.Worker, from, to) {
			from += n.MaxPoll
		}
		times := between(grants, from, to)
		if !w.Try && times > 30*(n.Workers+1) && (n.Pushes || to-w.From > 20*time.Second) && between(faults, w.From-n.Reach, to) == 0 {
			n.violation(to, "worker %d waited for %s, while others got the name %d times", w.Worker, history.Seconds(to-w.From), times)
		}
	}
}

// between counts the sorted times that lie between from and to.
func between(at []time.Duration, from, to time.Duration) int {
	i, _ := slices.BinarySearch(at, from)
	j, _ := slices.BinarySearch(at, to)
	return j - i
}

// falseRefusals finds claims that were refused because of a lease that must have run out
// before the request. It skips leases whose end is unknown.
func (n *nameHistory) falseRefusals() {
	ends := map[string]time.Duration{} // the latest end of each claim's leases
	for id, c := range n.claims {
		for _, o := range c.backendOps {
			switch {
			case o.Result == history.ResultUnknown && o.Verb != "release":
				ends[id] = history.Never
			case o.Extends():
				ends[id] = max(ends[id], n.latestEnd(o))
			}
		}
	}
	for _, o := range n.operations {
		end, ok := ends[o.Holder]
		if ok && o.Layer == history.LayerBackend && o.Result == history.ResultHeld && o.Call > end {
			n.violation(o.Return, "claim %s was refused because of claim %s, whose lease must have run out %s before", o.Claim, o.Holder, history.Seconds(o.Call-end))
			delete(ends, o.Holder) // one violation for each lease is enough
		}
	}
}

// leaks finds names that were not free after the end of the run.
func (v *verification) leaks() {
	for _, f := range v.h.Free {
		if f.At == 0 || f.At > f.By {
			text := fmt.Sprintf("the name has no holder, but was not free %s after the last client was closed", history.Seconds(f.By-v.h.Closed))
			v.found = append(v.found, history.Violation{Check: history.CheckLeak, Name: f.Name, At: f.By, Text: text})
		}
	}
}
