package check

import (
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// cleanups finds claims that a manager left to run out at the backend, although they had no user,
// or their grant was never reported. The manager must release each of these claims, and repeat the
// release until it is answered, for a TTL after its latest request. The manager is not responsible
// for a request that is delivered later.
func (n *nameHistory) cleanups() {
	givenUp := map[string]bool{}
	for _, t := range n.holds {
		givenUp[t.Claim] = t.Ending == history.EndingGivenUp && t.Reason == ""
	}
	for id, c := range n.claims {
		n.needlessReleases(id, c)
		n.droppedReleases(id, c)
		last, over := c.lastGrant()
		if last == nil || over || n.mayHaveEnded(last) {
			continue
		}
		var sent *history.Operation // the latest request for the lease
		// released, granted and unanswered are the calls of the latest release, of the latest grant
		// whose reply the manager got, and of the latest request without an answer.
		released, granted, unanswered := time.Duration(math.MinInt64), time.Duration(-1), time.Duration(-1)
		for _, o := range c.clientOps {
			if o.Verb != "release" {
				sent = o
			}
			switch {
			case o.Verb == "release":
				released = max(released, o.Call)
			case o.Extends():
				granted = max(granted, o.Call)
			case o.Result == history.ResultUnknown:
				unanswered = max(unanswered, o.Call)
			}
		}
		if !givenUp[id] && (unanswered <= granted || last.Call <= granted) {
			continue
		}
		slack := 2*n.Margin(last.TTL) + n.Patience
		until := min(after(last.Return, last.TTL, slack), after(sent.Call, sent.TTL, slack))
		if until < n.h.FaultsEnd && released < until-n.RequestTimeout-2*time.Second {
			n.violation(until, "claim %s of worker %d was left to run out at the backend, and its last release was sent at %s", id, last.Worker, history.Seconds(released))
		}
	}
}

// droppedReleases finds a release that was not answered, and was not repeated within half of the time
// after which the backend frees the name on its own. The repeat may be missing if other requests of
// the worker hang, or if its manager is closed.
func (n *nameHistory) droppedReleases(id string, c *claim) {
	var sent, release *history.Operation
	for _, o := range c.clientOps {
		switch {
		case o.Verb == "release" && (o.Result == history.ResultUnknown || o.Pause > 0) && o.Return > 0:
			release = o
		case o.Verb != "release" && (o.Result == history.ResultDone || o.Result == history.ResultUnknown):
			sent = o
		default: // the claim has ended, or was never granted
			return
		}
	}
	if release == nil || sent == nil || sent.TTL == leasing.Infinite || n.mayHaveEnded(sent) || n.Heedless {
		return
	}
	left := sent.Call + sent.TTL - release.Return
	by := release.Return + max(left/2, release.Pause) + n.Patience
	hangs := slices.ContainsFunc(n.h.Operations, func(o history.Operation) bool {
		return o.Worker == release.Worker && o.Layer == history.LayerClient && o.Call < by && o.Return > release.Return && o.Return-o.Call > left/8
	})
	closed := slices.ContainsFunc(n.h.Answers, func(w history.Answer) bool {
		return w.Verb == "closed" && w.Worker == release.Worker && w.Return >= sent.Call && w.Call < by
	})
	if left > 500*time.Millisecond && !hangs && !closed {
		n.violation(by, "the release of claim %s by worker %d that was not answered at %s was not tried again", id, release.Worker, history.Seconds(release.Return))
	}
}

// lastGrant returns the latest request that granted or renewed a claim's lease at the backend. over reports
// that the claim's release was answered, or that a request was refused because the claim has ended.
func (c *claim) lastGrant() (from *history.Operation, over bool) {
	refused := func(o *history.Operation) bool {
		return o.Result == history.ResultLost || o.Result == history.ResultReleased
	}
	for _, o := range c.backendOps {
		if o.Extends() {
			from = o
		}
		over = over || refused(o) || o.Verb == "release" && o.Result == history.ResultDone
	}
	return from, over || slices.ContainsFunc(c.clientOps, refused)
}

// mayHaveEnded reports whether a lease may have ended in another way since an operation: by a break, or with
// its manager.
func (n *nameHistory) mayHaveEnded(since *history.Operation) bool {
	broken := slices.ContainsFunc(n.operations, func(o history.Operation) bool { return o.Verb == "break" && o.Call >= since.Call-n.Reach })
	return broken || slices.ContainsFunc(n.h.Holds, func(t history.Hold) bool {
		return t.Worker == since.Worker && (t.Ending == history.EndingAbandoned || t.Ending == history.EndingKilled) && t.End >= since.Call-n.Reach
	}) || slices.Contains(n.h.Killed, since.Worker)
}

// needlessReleases finds releases of claims that were certainly never granted.
func (n *nameHistory) needlessReleases(id string, c *claim) {
	released := slices.IndexFunc(c.clientOps, func(o *history.Operation) bool { return o.Verb == "release" })
	if released >= 0 && !n.Heedless && !slices.ContainsFunc(c.clientOps, func(o *history.Operation) bool {
		return o.Verb != "release" && (o.Result == history.ResultUnknown || o.Result == history.ResultDone || o.Overrun > 0) // a late answer reaches no caller
	}) {
		o := c.clientOps[released]
		n.violation(o.Call, "claim %s of worker %d, which was refused, was released", id, o.Worker)
	}
}

// unansweredReleases finds a claim whose release was not answered, although Close of its manager
// reported success.
func (n *nameHistory) unansweredReleases() {
	since := map[int]time.Duration{} // the end of a worker's previous manager
	for _, w := range n.h.Answers {
		if w.Verb != "closed" {
			continue
		}
		for id, c := range n.claims {
			if w.Result != history.ResultDone || len(c.clientOps) == 0 || c.clientOps[0].Worker != w.Worker || c.clientOps[0].Call < since[w.Worker] || c.clientOps[0].Call > w.Call {
				continue
			}
			if until, unanswered := c.releaseUnanswered(); unanswered && until > w.Return+n.Patience {
				n.violation(w.Return, "worker %d closed its manager, which says nothing of claim %s, whose release was not answered", w.Worker, id)
			}
		}
		since[w.Worker] = w.Return
	}
}

// releaseUnanswered reports whether a claim's release was never answered, and returns the latest time at
// which its lease runs out.
func (c *claim) releaseUnanswered() (until time.Duration, unanswered bool) {
	for _, o := range c.clientOps {
		switch {
		case o.Verb != "release" && (o.Result == history.ResultDone || o.Result == history.ResultUnknown):
			until, unanswered = after(o.Call, o.TTL, 0), false
		case o.Verb == "release" && (o.Result == history.ResultUnknown || o.Pause > 0):
			unanswered = true
		default: // the claim has ended, or was never granted
			return 0, false
		}
	}
	return until, unanswered
}
