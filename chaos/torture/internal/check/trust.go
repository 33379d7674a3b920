package check

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// trustReports finds leases that reported more or less trust than the grants received so far allow, and
// leases that were given up before the end of that trust.
func (n *nameHistory) trustReports() {
	for _, w := range n.writes {
		terms := n.claim(w.Claim).terms
		if !w.Trusted || len(terms) == 0 {
			continue
		}
		most, _ := trust(terms, w.Return)
		_, least := trust(terms, w.Call)
		if least == leasing.Infinite { // the manager may still be processing that answer
			_, least = trust(terms, w.Call-n.Patience)
		}
		left := min(w.Remaining, math.MaxInt64-w.Return)
		switch {
		case w.Call+left > most || w.Call > most:
			n.violation(w.Call, "worker %d trusted claim %s until %s, and what it was granted ends at %s", w.Worker, w.Claim, history.Seconds(w.Call+left), history.Seconds(most))
		case least-w.Return-n.Patience > left:
			n.violation(w.Return, "worker %d trusted claim %s until %s only, and what it was granted ends at %s",
				w.Worker, w.Claim, history.Seconds(w.Return+left), history.Seconds(least))
		}
	}
	for _, e := range n.observed {
		_, least := trust(n.claim(e.Claim).terms, e.At)
		if e.Own && e.Reason == leasing.LostExpired && least > e.At+n.Patience && !slices.Contains(n.h.Killed, e.Worker) {
			n.violation(e.At, "claim %s of worker %d was given up as expired, and what it was granted ends at %s", e.Claim, e.Worker, history.Seconds(least))
		}
	}
}

// overlaps finds holders that trusted the name while another holder trusted its lease.
func (n *nameHistory) overlaps() {
	holds := slices.SortedStableFunc(slices.Values(n.holds), func(a, b history.Hold) int { return cmp.Compare(a.From, b.From) })
	var before history.Hold // the hold whose trust lasts longest
	var until time.Duration
	for _, t := range holds {
		end := n.exclusiveUntil(t)
		if end <= t.From { // the lease was given up, or broken, before its holder received the grant
			continue
		}
		if t.From < until {
			n.violation(t.From,
				"worker %d (claim %s, token %d) was granted the name while worker %d (claim %s, token %d) still trusted its lease, for %s more",
				t.Worker, t.Claim, t.Token, before.Worker, before.Claim, before.Token, history.Seconds(until-t.From))
		}
		if end >= until {
			before, until = t, end
		}
	}
}

// exclusiveUntil returns the end of a hold's trust, or an earlier time if an operator has broken the
// lease. After a break another claim may hold the name at once or, if the lease was infinite and not
// broken with Immediate, after the grace. The token of a break identifies its lease. A break whose
// token is unknown may have hit any lease.
func (n *nameHistory) exclusiveUntil(t history.Hold) (end time.Duration) {
	end = t.Trusted()
	for _, b := range n.breaks[0] {
		if b.Call < end && (b.Return == 0 || b.Return >= t.From) {
			end = max(b.Call, t.From)
		}
	}
	for _, b := range n.breaks[t.Token] {
		if t.Token != 0 {
			end = min(end, n.freedAt(b))
		}
	}
	return end
}

// freedAt returns the earliest time at which a break frees the name.
func (n *nameHistory) freedAt(b history.Operation) time.Duration {
	if b.Immediate {
		return b.Call
	}
	return max(b.Call, after(b.Call, b.Grace, n.Margin(b.Grace)))
}

// renewals finds leases that were not renewed in time: within the documented part of the TTL
// after the latest grant, and again after a failed renewal, while trust lasts.
func (n *nameHistory) renewals() {
	if n.Heedless || n.RenewFraction == 0 { // requests that don't return may block others
		return
	}
	byHand := func(claim string) bool {
		return slices.ContainsFunc(n.replies, func(w history.Answer) bool { return w.Claim == claim && (w.Verb == "renew" || w.Verb == "set") })
	}
	for _, t := range n.holds {
		if !t.Renews {
			n.excessRenewals(t)
		}
		if !t.Renews || n.h.Stopped(t.Worker, t.From, t.Trusted()) {
			continue
		}
		c, late := n.claim(t.Claim), false
		for i, o := range c.clientOps {
			again := func(by time.Duration) bool {
				return slices.ContainsFunc(c.clientOps[i+1:], func(next *history.Operation) bool { return next.Verb == "renew" && next.Call <= by })
			}
			if until, _ := trust(c.terms, o.Call); o.Verb == "renew" && o.Deadline > o.Call+(until-o.Call)/3+n.Patience && until > o.Call {
				n.violation(o.Call, "a renewal of claim %s by worker %d may take until %s, and its trust ends at %s", t.Claim, t.Worker, history.Seconds(o.Deadline), history.Seconds(until))
			}
			if o.Pause > 0 && o.Verb == "renew" && i+1 < len(c.clientOps) && !byHand(t.Claim) {
				until, _ := trust(c.terms, o.Return)
				if next := c.clientOps[i+1]; next.Verb == "renew" && next.Call < o.Return+min(o.Pause, (until-o.Return)/3)-n.Patience {
					n.violation(next.Call, "claim %s of worker %d was asked for %s after the backend had asked for a pause of %s", t.Claim, t.Worker, history.Seconds(next.Call-o.Return), history.Seconds(o.Pause))
				}
			}
			switch {
			case !late && o.Extends() && o.Overrun == 0 && o.TTL != leasing.Infinite:
				due := o.Call + time.Duration(n.RenewFraction*float64(o.TTL)) + n.Patience
				if late = due < cmp.Or(t.End, t.Until) && due > o.Return && !again(due); late {
					n.violation(due, "claim %s of worker %d was not renewed by then, %s after its latest grant", t.Claim, t.Worker, history.Seconds(due-o.Call))
				}
			case o.Verb == "renew" && (o.Result == history.ResultUnknown || o.Result == history.ResultRefused) && o.Return > 0: // it has failed, and must be retried while trust lasts
				until, _ := trust(c.terms, o.Return)
				left := until - o.Return
				by := o.Return + left/2 + n.Patience
				if left > 100*time.Millisecond && left < time.Hour && by < cmp.Or(t.End, t.Until) && !again(by) {
					n.violation(by, "the renewal of claim %s by worker %d that failed at %s was not tried again by then", t.Claim, t.Worker, history.Seconds(o.Return))
				}
			}
		}
	}
}

// excessRenewals finds renewals of a lease that its manager should not renew, or should renew less often.
func (n *nameHistory) excessRenewals(t history.Hold) {
	c, succeeded, failed := n.claim(t.Claim), 0, 0
	for _, o := range c.clientOps {
		switch {
		case o.Verb == "renew" && o.Result == history.ResultDone && o.Overrun == 0:
			succeeded++
		case o.Verb == "renew":
			failed++
		}
	}
	switch {
	case succeeded > t.Most:
		n.violation(t.From, "claim %s of worker %d was renewed %d times, and should have been no more than %d", t.Claim, t.Worker, succeeded, t.Most)
	case t.Reason == leasing.LostExpired && t.Most > 0 && succeeded == t.Most && failed == 0:
		n.violation(t.End, "claim %s of worker %d had no renewals left, and was lost as %s", t.Claim, t.Worker, t.Reason)
	}
}
