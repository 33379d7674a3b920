package check

import (
	"slices"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

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
		told := map[bool][]leasing.EventKind{} // the lease's own observer, or the manager's
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
