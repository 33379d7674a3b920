package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// tokens finds grants whose token is not higher than the token of every grant that
// had ended before the request, tokens that two claims share, and tokens that are behind the
// backend's clock.
func (n *named) tokens() {
	for _, layer := range layers {
		n.tokensOf(slices.DeleteFunc(seenBy(n.operations, layer), func(o history.Operation) bool { return !o.Granted() }))
	}
}

func (n *named) tokensOf(grants []history.Operation) {
	slices.SortStableFunc(grants, func(a, b history.Operation) int { return cmp.Compare(a.Call, b.Call) })
	returns := slices.SortedStableFunc(slices.Values(grants), func(a, b history.Operation) int { return cmp.Compare(a.Return, b.Return) })
	var highest history.Operation // of those that were over
	claims := map[int64]string{}
	for _, o := range grants {
		for returns[0].Return < o.Call {
			if returns[0].Token > highest.Token {
				highest = returns[0]
			}
			returns = returns[1:]
		}
		if o.Token < highest.Token {
			n.violated(o.Return, "claim %s was granted token %d after claim %s had been granted token %d", o.Claim, o.Token, highest.Claim, highest.Token)
		}
		if other, ok := claims[o.Token]; ok && other != o.Claim {
			n.violated(o.Return, "token %d was granted to claim %s and to claim %s", o.Token, other, o.Claim)
		}
		claims[o.Token] = o.Claim
		if o.Token < n.h.Backend-time.Minute.Microseconds() {
			n.violated(o.Return, "claim %s was granted token %d, and the backend's clock is beyond %d", o.Claim, o.Token, n.h.Backend)
		}
	}
}

// fence finds writes that the resource should have refused, and refusals of writes that it should have accepted.
func (n *named) fence() {
	var last history.Write    // the latest accepted write
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
