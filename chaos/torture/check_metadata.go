package torture

import "time"

// metadata finds holders whose lease, or whose record at the backend, was not what they had
// been granted and had set. A request without an answer may have changed that meanwhile.
func (n *named) metadata() {
	doubt := map[string]time.Duration{} // since when a claim has one of those
	for _, o := range n.operations {
		if since, ok := doubt[o.Claim]; o.Verb == "renew" && o.Result == resultUnknown && o.Layer == layerClient && (!ok || o.Call < since) {
			doubt[o.Claim] = o.Call
		}
	}
	for _, s := range n.sights {
		since, doubtful := doubt[s.Claim]
		doubtful = doubtful && since < s.Return
		mine := s.Holder == s.Claim && s.HolderToken == s.Token
		switch {
		case s.Metadata != "" && s.Has != s.Metadata:
			n.violated(checkMetadata, s.Return, "claim %s has metadata %q by its lease, and has set %q", s.Claim, s.Has, s.Metadata)
		case !s.Trusted || n.AssumptionsBroken:
		case !mine && len(n.breaks) == 0:
			n.violated(checkMetadata, s.Return, "the backend shows claim %s, token %d, to the holder of claim %s, token %d", s.Holder, s.HolderToken, s.Claim, s.Token)
		case mine && s.Metadata != "" && s.Shown != s.Metadata && !doubtful:
			n.violated(checkMetadata, s.Return, "the backend shows metadata %q to the holder of claim %s, who has set %q", s.Shown, s.Claim, s.Metadata)
		}
	}
}
