package check

import (
	"cmp"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// renewals finds leases that were not renewed in time: within the documented part of the TTL
// after the latest grant, and again after a failed renewal, while trust lasts.
func (n *named) renewals() {
	if n.Heedless || n.RenewFraction == 0 { // requests that don't return may block others
		return
	}
	byHand := func(claim string) bool {
		return slices.ContainsFunc(n.words, func(w history.Word) bool { return w.Claim == claim && (w.Verb == "renew" || w.Verb == "set") })
	}
	for _, t := range n.holds {
		if !t.Renews {
			n.unasked(t)
		}
		if !t.Renews || n.h.Stopped(t.Worker, t.From, t.Trusted()) {
			continue
		}
		c, tardy := n.claim(t.Claim), false
		for i, o := range c.asked {
			again := func(by time.Duration) bool {
				return slices.ContainsFunc(c.asked[i+1:], func(next *history.Operation) bool { return next.Verb == "renew" && next.Call <= by })
			}
			if until, _ := trust(c.terms, o.Call); o.Verb == "renew" && o.Deadline > o.Call+(until-o.Call)/3+n.Patience && until > o.Call {
				n.violated(o.Call, "a renewal of claim %s by worker %d may take until %s, and its trust ends at %s", t.Claim, t.Worker, history.Seconds(o.Deadline), history.Seconds(until))
			}
			if o.Pause > 0 && o.Verb == "renew" && i+1 < len(c.asked) && !byHand(t.Claim) {
				until, _ := trust(c.terms, o.Return)
				if next := c.asked[i+1]; next.Verb == "renew" && next.Call < o.Return+min(o.Pause, (until-o.Return)/3)-n.Patience {
					n.violated(next.Call, "claim %s of worker %d was asked for %s after the backend had asked for a pause of %s", t.Claim, t.Worker, history.Seconds(next.Call-o.Return), history.Seconds(o.Pause))
				}
			}
			switch {
			case !tardy && o.Extends() && o.Overrun == 0 && o.TTL != leasing.Infinite:
				due := o.Call + time.Duration(n.RenewFraction*float64(o.TTL)) + n.Patience
				if tardy = due < cmp.Or(t.End, t.Until) && due > o.Return && !again(due); tardy {
					n.violated(due, "claim %s of worker %d was not renewed by then, %s after its latest grant", t.Claim, t.Worker, history.Seconds(due-o.Call))
				}
			case o.Verb == "renew" && (o.Result == history.ResultUnknown || o.Result == history.ResultRefused) && o.Return > 0: // it has failed, and must be retried while trust lasts
				until, _ := trust(c.terms, o.Return)
				left := until - o.Return
				by := o.Return + left/2 + n.Patience
				if left > 100*time.Millisecond && left < time.Hour && by < cmp.Or(t.End, t.Until) && !again(by) {
					n.violated(by, "the renewal of claim %s by worker %d that failed at %s was not tried again by then", t.Claim, t.Worker, history.Seconds(o.Return))
				}
			}
		}
	}
}

// unasked finds renewals of a lease that its manager should not renew, or should renew less often.
func (n *named) unasked(t history.Hold) {
	c, succeeded, failed := n.claim(t.Claim), 0, 0
	for _, o := range c.asked {
		switch {
		case o.Verb == "renew" && o.Result == history.ResultDone && o.Overrun == 0:
			succeeded++
		case o.Verb == "renew":
			failed++
		}
	}
	switch {
	case succeeded > t.Most:
		n.violated(t.From, "claim %s of worker %d was renewed %d times, and should have been no more than %d", t.Claim, t.Worker, succeeded, t.Most)
	case t.Reason == leasing.LostExpired && t.Most > 0 && succeeded == t.Most && failed == 0:
		n.violated(t.End, "claim %s of worker %d had no renewals left, and was lost as %s", t.Claim, t.Worker, t.Reason)
	}
}
