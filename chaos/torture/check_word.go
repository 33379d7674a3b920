package torture

import (
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// tells finds answers of a lease's methods, and ends of its context, that do not match the state
// of the lease, or that came early or late.
func (n *named) tells() {
	for _, w := range n.words {
		if n.h.stopped(w.Worker, w.Call, w.Return) || slices.Contains(n.h.Killed, w.Worker) {
			continue
		}
		c := n.claim(w.Claim)
		least, most := n.bounds(c, w)
		switch lost := c.lost(); {
		case w.Verb == "leave":
			for _, t := range n.holds {
				if t.Claim == w.Claim && t.ended() > w.Call+2*n.Patience {
					n.violated(w.Call, "the caller of a Do left (worker %d, claim %s), and its function was not told", w.Worker, w.Claim)
				}
			}
		case w.Verb == "end" && w.Result != resultLost && w.Result != resultReleased,
			lost < w.Call && w.Result != resultLost && w.Verb != "end", w.Result == resultLost && lost > w.Return:
			n.violated(w.Return, "claim %s of worker %d was lost at %s, and %s says %q", w.Claim, w.Worker, seconds(lost), w.Verb, w.Result)
		case w.Unclear:
			n.violated(w.Return, "%s of claim %s of worker %d reports neither its outcome nor an unknown outcome", w.Verb, w.Claim, w.Worker)
		case w.Return > most:
			n.violated(w.Return, "%s of claim %s of worker %d came back %s late", w.Verb, w.Claim, w.Worker, seconds(w.Return-most))
		case w.Result == resultUnknown && w.Return < least:
			n.violated(w.Return, "%s of claim %s of worker %d gave up %s early", w.Verb, w.Claim, w.Worker, seconds(least-w.Return))
		case w.Verb == "renew" && c.misquoted(w, n.Patience) && !n.heedless: // otherwise a request that does not return may delay this one
			n.violated(w.Return, "renew of claim %s of worker %d says %q, and the backend has said otherwise", w.Claim, w.Worker, w.Result)
		case (w.Verb == "release" || w.Verb == "do") && w.Result == resultDone && !slices.ContainsFunc(c.asked, func(o *operation) bool {
			return o.Verb == "release" && o.Result == resultDone && o.Return <= w.Return
		}):
			n.violated(w.Return, "%s of claim %s of worker %d says that it is released, and the backend has not said so", w.Verb, w.Claim, w.Worker)
		}
	}
}

// bounds returns the earliest time at which a method may return without an answer, and the latest time
// at which it must return. A release goes on for a TTL, and at most for a second after its context has ended.
func (n *named) bounds(c *claim, w word) (least, most time.Duration) {
	switch {
	case w.Verb == "renew":
		return 0, max(w.Call, w.Bound) + n.Patience
	case w.Verb != "release" && w.Verb != "do":
		return 0, never
	}
	most = after(w.Call, c.shortest(), 0)
	if w.Bound > 0 {
		most = min(most, max(w.Call, w.Bound)+time.Second)
	}
	least = min(most, w.Call+time.Second) // the context of a Do may have ended earlier
	if w.Verb == "release" {
		least = most
	}
	if most == never {
		return least - n.Patience, most
	}
	return least - n.Patience, most + grace - time.Second + n.Patience
}

// misquoted reports whether a renewal by hand returned a false success, or hid a success. It
// may have joined a renewal that was answered just before, and whose answer its manager had not yet processed. An
// answer that arrives after the end of the request's context may be used or ignored.
func (c *claim) misquoted(w word, patience time.Duration) bool {
	joined, succeeded, late, failed := 0, 0, 0, 0
	for _, o := range c.asked {
		if o.Verb == "renew" && o.Result == resultDone && o.Return < w.Call && o.Return >= w.Call-patience {
			joined++
		}
		if o.Verb == "renew" && o.Return >= w.Call && (o.Return <= w.Return || o.Return == 0) {
			switch {
			case o.Result != resultDone:
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
	return w.Result == resultDone && joined+succeeded+late == 0 || w.Result == resultUnknown && !w.Cut && succeeded > 0 && failed+late == 0
}

// lost returns the time at which the holder's observer got the loss of a claim, or never.
func (c *claim) lost() time.Duration {
	for _, e := range c.notices {
		if e.Own && e.Kind == leasing.EventLost {
			return e.At
		}
	}
	return never
}

// shortest is the shortest TTL that a claim was granted.
func (c *claim) shortest() time.Duration {
	ttl := leasing.Infinite
	for _, o := range c.asked {
		if o.extends() {
			ttl = min(ttl, o.TTL)
		}
	}
	return ttl
}
