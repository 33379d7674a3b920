package torture

import (
	"cmp"
	"slices"
	"time"
)

// span is a time.
type span struct {
	from, to time.Duration
	ranOut   string // the claim whose lease ended at from without a release; "" if none did
	token    int64  // of the claim that has the name
}

// liveness finds times for which a name was free and wanted, and nobody got it; and waiters
// whom others overtook again and again.
func (n *named) liveness() {
	faults := n.faults()
	free := n.free()
	for _, w := range n.waits {
		to := cmp.Or(w.To, n.end)
		if w.Try || n.h.stopped(w.Worker, w.From, to) {
			continue
		}
		for i, _ := slices.BinarySearchFunc(free, w.From, func(s span, at time.Duration) int { return cmp.Compare(s.to, at) }); i < len(free) && free[i].from < to; i++ {
			idle := span{from: max(free[i].from, w.From), to: min(free[i].to, to), ranOut: free[i].ranOut}
			if idle.to-idle.from <= n.Patience {
				continue
			}
			if bound := n.idleBound(faults, w.Worker, idle); idle.to-idle.from > bound {
				n.violated(idle.from, "worker %d wanted the name, which was free, for %s: %s is what that may take",
					w.Worker, seconds(idle.to-idle.from), seconds(bound))
			}
		}
	}
	n.starving(faults)
}

// idleBound is for how long a name may be free while a worker wants it: as long as a hand-over
// takes if nothing has gone wrong since the first of those who wait began to, else until
// somebody asks by himself and is answered. Nothing wakes a waiter when a lease runs out: it
// knows the end of the one that it was refused because of, and of others hears within ten polls, as of
// a release whose hint went to one who was leaving.
func (n *named) idleBound(faults []time.Duration, worker int, idle span) time.Duration {
	poll := n.poll()
	if i, _ := slices.BinarySearch(faults, n.queued(idle.from)-n.reach); i == len(faults) || faults[i] > idle.to {
		switch {
		case !n.pushes:
			return 2*poll + n.Patience
		case idle.ranOut != "" && !n.knew(worker, idle), n.left(idle.from):
			return 10*poll + n.Patience
		case n.yields(worker, idle.from, idle.to):
			return poll + n.Patience
		}
		return n.Patience
	}
	calm, last := time.Duration(0), idle.from // the longest time without a fault
	for i, _ := slices.BinarySearch(faults, idle.from); i < len(faults) && faults[i] < idle.to; i++ {
		calm, last = max(calm, faults[i]-last), faults[i]
	}
	bound := 10*poll + 3*n.Manager.Tuning.RequestTimeout + n.Patience
	if max(calm, idle.to-last) <= bound {
		return never
	}
	return bound
}

// knew says that a worker's waiter was refused because of the lease that ran out. Another of its
// claims, which has left since, does not pass on what it was told.
func (n *named) knew(worker int, idle span) bool {
	for _, c := range n.claims {
		told := slices.IndexFunc(c.asked, func(o *operation) bool { return o.Worker == worker && o.Holder == idle.ranOut && o.Return <= idle.from })
		if told >= 0 && slices.ContainsFunc(c.asked[told:], func(o *operation) bool { return o.Verb == "acquire" && o.Call >= idle.from }) {
			return true
		}
	}
	return false
}

// left says that a waiter left at a time: with it goes the hint that it may just have had.
func (n *named) left(at time.Duration) bool {
	return slices.ContainsFunc(n.waits, func(w wait) bool { return !w.Try && !w.Got && w.To >= at-n.Patience && w.To <= at+n.Patience })
}

// yields says that a manager has just had the name: it may leave it to others for a moment,
// which is at most MaxPoll.
func (n *named) yields(worker int, from, to time.Duration) bool {
	return slices.ContainsFunc(n.holds, func(t hold) bool {
		return t.Worker == worker && t.From < to && t.End > from-2*n.poll()
	})
}

// poll is the managers' MaxPoll.
func (n *named) poll() time.Duration { return cmp.Or(n.Manager.Tuning.MaxPoll, time.Second) } // the documented default

// faults are the times of those that concern the name.
func (n *named) faults() (at []time.Duration) {
	for _, f := range n.h.Faults {
		if f.Name == n.name || f.Name == "" {
			at = append(at, f.At)
		}
	}
	slices.Sort(at)
	return at
}

// queued is since when the first of those has waited who wait at a time.
func (n *named) queued(at time.Duration) time.Duration {
	first := at
	for _, w := range n.waits {
		if w.From <= at && (w.To == 0 || w.To >= at) {
			first = min(first, w.From)
		}
	}
	return first
}

// free are the times for which no claim may have had the name, in order.
func (n *named) free() (free []span) {
	var taken []span
	for id, c := range n.claims {
		s := span{from: never, ranOut: id}
		for _, o := range c.answered {
			switch {
			case o.Verb == "acquire" && o.Result == resultUnknown:
				s.from, s.to = min(s.from, o.Call), never
			case o.extends():
				s.from, s.to, s.token = min(s.from, o.Call), max(s.to, n.over(o)), o.Token
			}
		}
		for _, o := range c.answered {
			if o.Verb == "release" && o.Result == resultDone && o.Call >= s.from && o.Return < s.to {
				s.to, s.ranOut = o.Return, ""
			}
		}
		for _, o := range n.operations {
			if o.Verb == "break" && o.Immediate && o.Result == resultDone && o.Token != 0 && o.Token == s.token && o.Return < s.to {
				s.to, s.ranOut = o.Return, ""
			}
		}
		if s.from != never {
			taken = append(taken, s)
		}
	}
	slices.SortFunc(taken, func(a, b span) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	var last span // to end
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

// starving finds waiters who were overtaken more often than chance explains, with no fault
// since they began to wait.
func (n *named) starving(faults []time.Duration) {
	var grants []time.Duration
	for _, o := range n.operations {
		if o.Layer == layerBackend && o.granted() {
			grants = append(grants, o.Call)
		}
	}
	slices.Sort(grants)
	for _, w := range n.waits {
		from, to := w.From, cmp.Or(w.To, n.end)
		if n.yields(w.Worker, from, to) {
			from += n.poll()
		}
		times := between(grants, from, to)
		if !w.Try && times > 30*(n.Workers+1) && (n.pushes || to-w.From > 20*time.Second) && between(faults, w.From-n.reach, to) == 0 {
			n.violated(to, "worker %d waited for %s, while others got the name %d times", w.Worker, seconds(to-w.From), times)
		}
	}
}

// between is how many of some times in order are in a span.
func between(at []time.Duration, from, to time.Duration) int {
	i, _ := slices.BinarySearch(at, from)
	j, _ := slices.BinarySearch(at, to)
	return j - i
}
