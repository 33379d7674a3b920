package torture

import "slices"

// answers finds grants that do not match their request, and refusals that do not name the
// holder.
func (n *named) answers() {
	for _, w := range n.waits {
		if w.Result != resultHeld || n.Votes {
			continue
		}
		own := slices.ContainsFunc(n.holds, func(t hold) bool {
			return t.Worker == w.Worker && t.Claim == w.Holder && t.From < w.From && t.trusted() > w.To
		})
		if own && !w.Own {
			n.violated(w.To, "an acquire of worker %d was told of claim %s, and not that it is its manager's own", w.Worker, w.Holder)
		}
		if w.Holder == "" && !slices.ContainsFunc(n.operations, func(o operation) bool {
			return o.Worker == w.Worker && o.Layer == layerClient && o.Verb == "acquire" && o.Return >= w.From && o.Call <= w.To && o.Holder == ""
		}) {
			n.violated(w.To, "an acquire of worker %d was told that the name is held, and not by whom", w.Worker)
		}
	}
	for _, o := range n.operations {
		if o.Unanswered && o.Layer == layerBackend {
			n.violated(o.Return, "%s of claim %s by worker %d has no answer in that of its batch", o.Verb, o.Claim, o.Worker)
		}
		if o.Stray != "" {
			n.violated(o.Return, "%s of claim %s by worker %d was answered to the %s with a grant for %s, claim %s",
				o.Verb, o.Claim, o.Worker, o.Layer, o.Stray, o.StrayClaim)
		}
	}
}
