package torture

import "slices"

// metadata finds leases and backend records that do not show the holder, or the metadata that the
// holder has set. A request without an answer may have changed the record.
func (n *named) metadata() {
	for _, s := range n.sights {
		doubtful := slices.ContainsFunc(n.claim(s.Claim).asked, func(o *operation) bool {
			return o.Verb == "renew" && o.Result == resultUnknown && o.Call < s.Return
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
