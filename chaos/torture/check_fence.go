package torture

import (
	"fmt"
	"math"
	"time"
)

// fence finds writes that the resource should have refused, and refusals of writes that it should have accepted.
func (n *named) fence() {
	var last write            // the latest accepted write
	told := map[string]bool{} // one violation for each claim is enough
	broken := time.Duration(math.MaxInt64)
	for _, breaks := range n.breaks {
		broken = min(broken, breaks[0].Call)
	}
	for _, w := range n.writes {
		text := ""
		switch {
		case told[w.Claim]:
		case w.Accepted && w.Token < last.Token:
			text = fmt.Sprintf("a stale write was accepted: claim %s wrote with token %d after token %d", w.Claim, w.Token, last.Token)
		case w.Accepted && w.Token == last.Token && w.Claim != last.Claim:
			text = fmt.Sprintf("claims %s and %s wrote with the same token %d", last.Claim, w.Claim, w.Token)
		case !w.Accepted && w.Trusted && broken > w.Return && !n.AssumptionsBroken: // otherwise another claim may have the name, too
			text = fmt.Sprintf("the holder (claim %s, token %d) was refused: the resource had seen token %d of claim %s",
				w.Claim, w.Token, last.Token, last.Claim)
		}
		if text != "" {
			told[w.Claim] = true
			n.violated(w.Return, "%s", text)
		}
		if w.Accepted && w.Token >= last.Token {
			last = w
		}
	}
}
