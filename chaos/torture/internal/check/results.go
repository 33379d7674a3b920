package check

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// losses finds holders that were not notified at once when their trust ended, or when the backend
// reported the loss.
func (n *nameHistory) losses() {
	for _, t := range n.holds {
		for _, o := range n.claim(t.Claim).clientOps {
			if o.Verb == "renew" && o.Result == history.ResultLost && o.Overrun == 0 && t.Ended() > o.Return+n.Patience {
				n.violation(o.Return, "the backend said that the lease was lost (worker %d, claim %s), and its holder was not notified", t.Worker, t.Claim)
				break
			}
		}
		late, noticed := n.h.Late(t)
		switch {
		case t.Ending == history.EndingGivenUp || t.Ending == history.EndingAbandoned || t.Ending == history.EndingKilled:
		case noticed && late > n.Patience:
			n.violation(t.Until, "the holder (worker %d, claim %s) noticed the end of its trust %s late", t.Worker, t.Claim, history.Seconds(late))
		case !noticed && n.end > t.Until+n.Patience:
			n.violation(t.Until, "the holder (worker %d, claim %s) never noticed the end of its trust", t.Worker, t.Claim)
		}
	}
}

// releases finds leases that were released at the backend while their holder was still at
// work: the lease's context had not ended, or Do's function had not returned.
func (n *nameHistory) releases() {
	for _, o := range n.operations {
		if o.Early && n.claim(o.Claim).lost() > o.Call {
			n.violation(o.Call, "claim %s of worker %d was released while its holder was at work", o.Claim, o.Worker)
		}
		if o.Verb == "release" && o.Layer == history.LayerClient && slices.ContainsFunc(n.holds, func(t history.Hold) bool {
			return t.Claim == o.Claim && t.Reason == leasing.LostClosed && t.End <= o.Call
		}) {
			n.violation(o.Call, "claim %s of worker %d was released, whose manager was closed while it was in use", o.Claim, o.Worker)
		}
		if o.Verb == "release" && o.Layer == history.LayerClient && !n.Heedless && slices.ContainsFunc(n.holds, func(t history.Hold) bool { // otherwise a renewal may have arrived too late to count
			return t.Claim == o.Claim && t.Reason == leasing.LostExpired && o.Call >= t.Until && o.Call < t.Until+n.Margin(n.claim(o.Claim).shortest())-n.Patience
		}) {
			n.violation(o.Call, "claim %s of worker %d, which was lost, was released before the backend had to free it", o.Claim, o.Worker)
		}
	}
}

// results finds answers from a lease's methods, and ends of its context, that do not match the
// state of the lease, or that come too early or too late.
func (n *nameHistory) results() {
	for _, w := range n.replies {
		if n.h.Stopped(w.Worker, w.Call, w.Return) || slices.Contains(n.h.Killed, w.Worker) {
			continue
		}
		c := n.claim(w.Claim)
		least, most := n.bounds(c, w)
		switch lost := c.lost(); {
		case w.Verb == "leave":
			for _, t := range n.holds {
				if t.Claim == w.Claim && t.Ended() > w.Call+2*n.Patience {
					n.violation(w.Call, "the caller of a Do left (worker %d, claim %s), and its function was not notified", w.Worker, w.Claim)
				}
			}
		case w.Verb == "end" && w.Result != history.ResultLost && w.Result != history.ResultReleased,
			lost < w.Call && w.Result != history.ResultLost && w.Verb != "end", w.Result == history.ResultLost && lost > w.Return:
			n.violation(w.Return, "claim %s of worker %d was lost at %s, and %s says %q", w.Claim, w.Worker, history.Seconds(lost), w.Verb, w.Result)
		case w.Unclear:
			n.violation(w.Return, "%s of claim %s of worker %d reports neither its outcome nor an unknown outcome", w.Verb, w.Claim, w.Worker)
		case w.Return > most:
			n.violation(w.Return, "%s of claim %s of worker %d came back %s late", w.Verb, w.Claim, w.Worker, history.Seconds(w.Return-most))
		case w.Result == history.ResultUnknown && w.Return < least:
			n.violation(w.Return, "%s of claim %s of worker %d gave up %s early", w.Verb, w.Claim, w.Worker, history.Seconds(least-w.Return))
		case w.Verb == "renew" && c.hasFalseResult(w, n.Patience) && !n.Heedless: // otherwise a request that does not return may delay this one
			n.violation(w.Return, "renew of claim %s of worker %d says %q, and the backend has said otherwise", w.Claim, w.Worker, w.Result)
		case (w.Verb == "release" || w.Verb == "do") && w.Result == history.ResultDone && !slices.ContainsFunc(c.clientOps, func(o *history.Operation) bool {
			return o.Verb == "release" && o.Result == history.ResultDone && o.Return <= w.Return
		}):
			n.violation(w.Return, "%s of claim %s of worker %d says that it is released, and the backend has not said so", w.Verb, w.Claim, w.Worker)
		}
	}
}

// bounds returns the earliest time at which a method may return without an answer, and the time by which it
// must return. A release is tried for a TTL, but for at most a second after its context has ended.
func (n *nameHistory) bounds(c *claim, w history.Answer) (least, most time.Duration) {
	switch {
	case w.Verb == "renew":
		return 0, max(w.Call, w.Bound) + n.Patience
	case w.Verb != "release" && w.Verb != "do":
		return 0, history.Never
	}
	most = after(w.Call, c.shortest(), 0)
	if w.Bound > 0 {
		most = min(most, max(w.Call, w.Bound)+time.Second)
	}
	least = min(most, w.Call+time.Second) // the context of a Do may have ended earlier
	if w.Verb == "release" {
		least = most
	}
	if most == history.Never {
		return least - n.Patience, most
	}
	return least - n.Patience, most + Grace - time.Second + n.Patience
}

// hasFalseResult reports whether a renewal by hand returned a false success, or hid a success. The call may have
// joined a renewal that was answered just before, and whose answer the manager had not yet processed. An answer
// that arrives after the end of the request's context may be used or ignored.
func (c *claim) hasFalseResult(w history.Answer, patience time.Duration) bool {
	joined, succeeded, late, failed := 0, 0, 0, 0
	for _, o := range c.clientOps {
		if o.Verb == "renew" && o.Result == history.ResultDone && o.Return < w.Call && o.Return >= w.Call-patience {
			joined++
		}
		if o.Verb == "renew" && o.Return >= w.Call && (o.Return <= w.Return || o.Return == 0) {
			switch {
			case o.Result != history.ResultDone:
				failed++
			case o.Overrun > 0:
				late++
			default:
				succeeded++
			}
			if o.Deadline > 0 && o.Return >= o.Deadline { // the answer may be late
				failed++
			}
		}
	}
	return w.Result == history.ResultDone && joined+succeeded+late == 0 || w.Result == history.ResultUnknown && !w.Cut && succeeded > 0 && failed+late == 0
}

// missingFailures finds waits that went on after a failed request for which the manager's observer
// got no event.
func (n *nameHistory) missingFailures() {
	for id, c := range n.claims {
		failed, reported := 0, 0
		for i, o := range c.clientOps[:max(0, len(c.clientOps)-1)] {
			if o.Verb == "acquire" && c.clientOps[i+1].Verb == "acquire" && o.Return > 0 && (o.Result == history.ResultUnknown || o.Result == history.ResultRefused) {
				failed++
			}
		}
		for _, e := range c.observed {
			if e.Kind == leasing.EventAcquireFailed {
				reported += e.Times
			}
		}
		if failed > reported && !slices.Contains(n.h.Killed, c.clientOps[0].Worker) {
			n.violation(c.clientOps[0].Call, "claim %s of worker %d was asked for again after %d requests that had failed, and the observer got %d events", id, c.clientOps[0].Worker, failed, reported)
		}
	}
}

// events finds leases whose observers did not get exactly one event for the beginning and then one
// for the end. It checks both the lease's and the manager's observers.
func (n *nameHistory) events() {
	n.missingFailures()
	for _, t := range n.holds {
		if len(n.h.Observed) == 0 || slices.Contains(n.h.Killed, t.Worker) {
			continue
		}
		c := n.claim(t.Claim)
		eventKinds := map[bool][]leasing.EventKind{} // true for the lease's own observer, false for the manager's
		for _, e := range c.observed {
			if e.Kind == leasing.EventLost && e.Reason == leasing.LostBroken && !c.reportsActor(e.By) {
				n.violation(e.At, "the observer of worker %d got an event that claim %s was broken by %q, and no reply to a renewal says so", e.Worker, t.Claim, e.By)
			}
			if e.Kind != leasing.EventAcquireFailed {
				eventKinds[e.Own] = append(eventKinds[e.Own], e.Kind)
			}
		}
		for _, o := range c.clientOps {
			reported := map[history.Result]bool{history.ResultDone: t.Renewed, history.ResultUnknown: t.RenewalFailed}
			if known, is := reported[o.Result]; is && !known && o.Verb == "renew" && o.Overrun == 0 && o.Return > 0 && o.Return+n.Patience < t.Trusted() {
				n.violation(o.Return, "the observer of worker %d got no event for the result of a renewal of claim %s: %s", t.Worker, t.Claim, o.Result)
			}
		}
		for own, observer := range map[bool]string{true: "lease's", false: "manager's"} {
			kinds := eventKinds[own]
			ok := len(kinds) == 2 && kinds[0] == leasing.EventAcquired &&
				(kinds[1] == leasing.EventLost || kinds[1] == leasing.EventReleased && t.Ending != history.EndingLost && t.Ending != history.EndingAbandoned)
			if !ok {
				n.violation(t.End, "the %s observer of worker %d got these events of claim %s, which was %s: %v", observer, t.Worker, t.Claim, t.Ending, kinds)
			}
		}
	}
}

// reportsActor reports whether the reply to a renewal named this actor of the claim's break. Without such a
// reply it allows any actor.
func (c *claim) reportsActor(by string) bool {
	broken := slices.DeleteFunc(slices.Clone(c.clientOps), func(o *history.Operation) bool { return o.Why != leasing.LostBroken })
	return len(broken) == 0 || slices.ContainsFunc(broken, func(o *history.Operation) bool { return o.By == by })
}
