package check

import (
	"slices"

	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// answers finds grants that do not match their request, and refusals that do not name the
// holder.
func (n *named) answers() {
	for _, w := range n.waits {
		if w.Result != history.ResultHeld || n.Votes {
			continue
		}
		own := slices.ContainsFunc(n.holds, func(t history.Hold) bool {
			return t.Worker == w.Worker && t.Claim == w.Holder && t.From < w.From && t.Trusted() > w.To
		})
		if own && !w.Own {
			n.violated(w.To, "an acquire of worker %d was told of claim %s, and not that it is its manager's own", w.Worker, w.Holder)
		}
		if w.Holder == "" && !slices.ContainsFunc(n.operations, func(o history.Operation) bool {
			return o.Worker == w.Worker && o.Layer == history.LayerClient && o.Verb == "acquire" && o.Return >= w.From && o.Call <= w.To && o.Holder == ""
		}) {
			n.violated(w.To, "an acquire of worker %d was told that the name is held, and not by whom", w.Worker)
		}
	}
	for _, o := range n.operations {
		if o.Unanswered && o.Layer == history.LayerBackend {
			n.violated(o.Return, "%s of claim %s by worker %d has no answer in that of its batch", o.Verb, o.Claim, o.Worker)
		}
		if o.Stray != "" {
			n.violated(o.Return, "%s of claim %s by worker %d was answered to the %s with a grant for %s, claim %s",
				o.Verb, o.Claim, o.Worker, o.Layer, o.Stray, o.StrayClaim)
		}
	}
}

// metadata finds leases and backend records that do not show the holder, or the metadata that the
// holder has set. A request without an answer may have changed the record.
func (n *named) metadata() {
	for _, s := range n.sights {
		doubtful := slices.ContainsFunc(n.claim(s.Claim).asked, func(o *history.Operation) bool {
			return o.Verb == "renew" && o.Result == history.ResultUnknown && o.Call < s.Return
		})
		mine := s.Holder == s.Claim && (s.HolderToken == s.Token || n.Votes && s.HolderToken > s.Token)
		switch {
		case mine && s.Other != "":
			n.violated(s.Return, "the backend shows owner %q to worker %d, the holder of claim %s", s.Other, s.Worker, s.Claim)
		case s.Metadata != "" && s.Has != s.Metadata:
			n.violated(s.Return, "claim %s has metadata %q by its lease, and has set %q", s.Claim, s.Has, s.Metadata)
		case !s.Trusted || n.AssumptionsBroken:
		case !mine && len(n.breaks) == 0:
			n.violated(s.Return, "the backend shows claim %s, token %d, to the holder of claim %s, token %d", s.Holder, s.HolderToken, s.Claim, s.Token)
		case mine && s.Metadata != "" && s.Shown != s.Metadata && !doubtful:
			n.violated(s.Return, "the backend shows metadata %q to the holder of claim %s, who has set %q", s.Shown, s.Claim, s.Metadata)
		}
	}
}

// listing finds holders whose names the backend does not list once, and names that it should not
// list, or lists twice.
func (n *named) listing() {
	for _, s := range n.sights {
		switch {
		case !s.Listed:
		case s.Strange != "":
			n.violated(s.Return, "a list shows %s", s.Strange)
		case s.Trusted && s.Holder == s.Claim && len(n.breaks) == 0 && !n.Votes && (s.AsHeld != 1 || s.AsName != 1):
			n.violated(s.Return, "the name of claim %s is listed %d times among those that are held, and %d times by itself", s.Claim, s.AsHeld, s.AsName)
		}
	}
}
