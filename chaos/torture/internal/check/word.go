package check

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// losses finds holders that were not notified at once when their trust ended, or when the backend
// reported the loss.
func (n *named) losses() {
	for _, t := range n.holds {
		for _, o := range n.claim(t.Claim).asked {
			if o.Verb == "renew" && o.Result == history.ResultLost && o.Overrun == 0 && t.Ended() > o.Return+n.Patience {
				n.violated(o.Return, "the backend said that the lease was lost (worker %d, claim %s), and its holder was not told", t.Worker, t.Claim)
				break
			}
		}
		late, told := n.h.Late(t)
		switch {
		case t.Ending == history.EndingGivenUp || t.Ending == history.EndingAbandoned || t.Ending == history.EndingKilled:
		case told && late > n.Patience:
			n.violated(t.Until, "the holder (worker %d, claim %s) heard of the end of its trust %s late", t.Worker, t.Claim, history.Seconds(late))
		case !told && n.end > t.Until+n.Patience:
			n.violated(t.Until, "the holder (worker %d, claim %s) never heard of the end of its trust", t.Worker, t.Claim)
		}
	}
}

// releases finds leases that were released at the backend while their holder was still at
// work: the lease's context had not ended, or Do's function had not returned.
func (n *named) releases() {
	for _, o := range n.operations {
		if o.Early && n.claim(o.Claim).lost() > o.Call {
			n.violated(o.Call, "claim %s of worker %d was released while its holder was at work", o.Claim, o.Worker)
		}
		if o.Verb == "release" && o.Layer == history.LayerClient && slices.ContainsFunc(n.holds, func(t history.Hold) bool {
			return t.Claim == o.Claim && t.Reason == leasing.LostClosed && t.End <= o.Call
		}) {
			n.violated(o.Call, "claim %s of worker %d was released, whose manager was closed while it was in use", o.Claim, o.Worker)
		}
		if o.Verb == "release" && o.Layer == history.LayerClient && !n.Heedless && slices.ContainsFunc(n.holds, func(t history.Hold) bool { // otherwise a renewal may have arrived too late to count
			return t.Claim == o.Claim && t.Reason == leasing.LostExpired && o.Call >= t.Until && o.Call < t.Until+n.Margin(n.claim(o.Claim).shortest())-n.Patience
		}) {
			n.violated(o.Call, "claim %s of worker %d, which was lost, was released before the backend had to free it", o.Claim, o.Worker)
		}
	}
}

// tells finds answers of a lease's methods, and ends of its context, that do not match the state
// of the lease, or that came early or late.
func (n *named) tells() {
	for _, w := range n.words {
		if n.h.Stopped(w.Worker, w.Call, w.Return) || slices.Contains(n.h.Killed, w.Worker) {
			continue
		}
		c := n.claim(w.Claim)
		least, most := n.bounds(c, w)
		switch lost := c.lost(); {
		case w.Verb == "leave":
			for _, t := range n.holds {
				if t.Claim == w.Claim && t.Ended() > w.Call+2*n.Patience {
					n.violated(w.Call, "the caller of a Do left (worker %d, claim %s), and its function was not told", w.Worker, w.Claim)
				}
			}
		case w.Verb == "end" && w.Result != history.ResultLost && w.Result != history.ResultReleased,
			lost < w.Call && w.Result != history.ResultLost && w.Verb != "end", w.Result == history.ResultLost && lost > w.Return:
			n.violated(w.Return, "claim %s of worker %d was lost at %s, and %s says %q", w.Claim, w.Worker, history.Seconds(lost), w.Verb, w.Result)
		case w.Unclear:
			n.violated(w.Return, "%s of claim %s of worker %d reports neither its outcome nor an unknown outcome", w.Verb, w.Claim, w.Worker)
		case w.Return > most:
			n.violated(w.Return, "%s of claim %s of worker %d came back %s late", w.Verb, w.Claim, w.Worker, history.Seconds(w.Return-most))
		case w.Result == history.ResultUnknown && w.Return < least:
			n.violated(w.Return, "%s of claim %s of worker %d gave up %s early", w.Verb, w.Claim, w.Worker, history.Seconds(least-w.Return))
		case w.Verb == "renew" && c.misquoted(w, n.Patience) && !n.Heedless: // otherwise a request that does not return may delay this one
			n.violated(w.Return, "renew of claim %s of worker %d says %q, and the backend has said otherwise", w.Claim, w.Worker, w.Result)
		case (w.Verb == "release" || w.Verb == "do") && w.Result == history.ResultDone && !slices.ContainsFunc(c.asked, func(o *history.Operation) bool {
			return o.Verb == "release" && o.Result == history.ResultDone && o.Return <= w.Return
		}):
			n.violated(w.Return, "%s of claim %s of worker %d says that it is released, and the backend has not said so", w.Verb, w.Claim, w.Worker)
		}
	}
}

// bounds returns the earliest time at which a method may return without an answer, and the latest time
// at which it must return. A release goes on for a TTL, and at most for a second after its context has ended.
func (n *named) bounds(c *claim, w history.Word) (least, most time.Duration) {
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

// misquoted reports whether a renewal by hand returned a false success, or hid a success. The call may have
// joined a renewal that was answered just before, and whose answer the manager had not yet processed. An answer
// that arrives after the end of the request's context may be used or ignored.
func (c *claim) misquoted(w history.Word, patience time.Duration) bool {
	joined, succeeded, late, failed := 0, 0, 0, 0
	for _, o := range c.asked {
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

// silent finds waits that went on after a failed request without an event for the manager's
// observer.
func (n *named) silent() {
	for id, c := range n.claims {
		failed, told := 0, 0
		for i, o := range c.asked[:max(0, len(c.asked)-1)] {
			if o.Verb == "acquire" && c.asked[i+1].Verb == "acquire" && o.Return > 0 && (o.Result == history.ResultUnknown || o.Result == history.ResultRefused) {
				failed++
			}
		}
		for _, e := range c.notices {
			if e.Kind == leasing.EventAcquireFailed {
				told += e.Times
			}
		}
		if failed > told && !slices.Contains(n.h.Killed, c.asked[0].Worker) {
			n.violated(c.asked[0].Call, "claim %s of worker %d was asked for again after %d requests that had failed, and the observer was told of %d", id, c.asked[0].Worker, failed, told)
		}
	}
}

// events finds leases whose observers did not get exactly one event for the beginning and then one
// for the end. It checks both the lease's and the manager's observers.
func (n *named) events() {
	n.silent()
	for _, t := range n.holds {
		if len(n.h.Notices) == 0 || slices.Contains(n.h.Killed, t.Worker) {
			continue
		}
		c := n.claim(t.Claim)
		told := map[bool][]leasing.EventKind{} // true for the lease's own observer, false for the manager's
		for _, e := range c.notices {
			if e.Kind == leasing.EventLost && e.Reason == leasing.LostBroken && !c.wasTold(e.By) {
				n.violated(e.At, "the observer of worker %d was told that claim %s was broken by %q, and no reply to a renewal says so", e.Worker, t.Claim, e.By)
			}
			if e.Kind != leasing.EventAcquireFailed {
				told[e.Own] = append(told[e.Own], e.Kind)
			}
		}
		for _, o := range c.asked {
			heard := map[history.Result]bool{history.ResultDone: t.Renewed, history.ResultUnknown: t.RenewalFailed}
			if known, is := heard[o.Result]; is && !known && o.Verb == "renew" && o.Overrun == 0 && o.Return > 0 && o.Return+n.Patience < t.Trusted() {
				n.violated(o.Return, "the observer of worker %d was told of no renewal of claim %s that was like the one then: %s", t.Worker, t.Claim, o.Result)
			}
		}
		for own, observer := range map[bool]string{true: "lease's", false: "manager's"} {
			kinds := told[own]
			ok := len(kinds) == 2 && kinds[0] == leasing.EventAcquired &&
				(kinds[1] == leasing.EventLost || kinds[1] == leasing.EventReleased && t.Ending != history.EndingLost && t.Ending != history.EndingAbandoned)
			if !ok {
				n.violated(t.End, "the %s observer of worker %d was told of claim %s, which was %s: %v", observer, t.Worker, t.Claim, t.Ending, kinds)
			}
		}
	}
}

// wasTold reports whether the reply to a renewal named this actor of the claim's break. Without such a
// reply it allows any actor.
func (c *claim) wasTold(by string) bool {
	broken := slices.DeleteFunc(slices.Clone(c.asked), func(o *history.Operation) bool { return o.Why != leasing.LostBroken })
	return len(broken) == 0 || slices.ContainsFunc(broken, func(o *history.Operation) bool { return o.By == by })
}
