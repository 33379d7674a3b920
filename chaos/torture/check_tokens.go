package torture

import (
	"cmp"
	"slices"
	"time"
)

// tokens finds grants whose token is not higher than the token of every grant that
// had ended before the request, tokens that two claims share, and tokens that are behind the
// backend's clock.
func (n *named) tokens() {
	for _, layer := range layers {
		n.tokensOf(slices.DeleteFunc(seenBy(n.operations, layer), func(o operation) bool { return !o.granted() }))
	}
}

func (n *named) tokensOf(grants []operation) {
	slices.SortStableFunc(grants, func(a, b operation) int { return cmp.Compare(a.Call, b.Call) })
	returns := slices.SortedStableFunc(slices.Values(grants), func(a, b operation) int { return cmp.Compare(a.Return, b.Return) })
	var highest operation // of those that were over
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
