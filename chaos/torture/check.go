package torture

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// overlaps finds those who trusted the name while somebody else did.
func (n *named) overlaps() {
	holds := slices.SortedStableFunc(slices.Values(n.holds), func(a, b hold) int { return cmp.Compare(a.From, b.From) })
	var before hold // whose trust lasts longest
	var until time.Duration
	for i, t := range holds {
		if i > 0 && t.From < until {
			n.violated(CheckOverlap, t.From,
				"worker %d (claim %s, token %d) was granted the name while worker %d (claim %s, token %d) still trusted its lease, for %s more",
				t.Worker, t.Claim, t.Token, before.Worker, before.Claim, before.Token, seconds(until-t.From))
		}
		if end := trustBefore(t, n.breaks); end >= until {
			before, until = t, end
		}
	}
}

// trustBefore is the end of a hold's trust, or of the exclusion that goes with
// it if an operator has broken the lease.
func trustBefore(t hold, breaks []operation) time.Duration {
	end := t.trusted()
	for _, b := range breaks {
		if over := b.Return; b.Call < end && (over == 0 || over >= t.From) {
			end = max(b.Call, t.From)
		}
	}
	return end
}

func immediateBreaks(operations []operation) (breaks []operation) {
	for _, o := range operations {
		if o.Verb == "break" && o.Immediate && (o.Result == resultDone || o.Result == resultUnknown) {
			breaks = append(breaks, o)
		}
	}
	return breaks
}

// seenBy are the operations that one layer saw. Clients know nothing of the breaks
// that befall them: those are taken from below.
func seenBy(operations []operation, layer layer) (seen []operation) {
	for _, o := range operations {
		if o.Layer == layer || o.Verb == "break" && o.Layer == layerBackend {
			seen = append(seen, o)
		}
	}
	return seen
}

func (o operation) granted() bool { return o.Verb == "acquire" && o.Result == resultDone }

// tokens finds grants whose token is not higher than that of every grant that
// was over before they were asked for, and tokens of two claims.
func (n *named) tokens(seen []operation) {
	grants := slices.DeleteFunc(slices.Clone(seen), func(o operation) bool { return !o.granted() })
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
			n.violated(CheckTokens, o.Return, "claim %s was granted token %d after claim %s had been granted token %d", o.Claim, o.Token, highest.Claim, highest.Token)
		}
		if other, ok := claims[o.Token]; ok && other != o.Claim {
			n.violated(CheckTokens, o.Return, "token %d was granted to claim %s and to claim %s", o.Token, other, o.Claim)
		}
		claims[o.Token] = o.Claim
	}
}

// fence finds writes that the resource should have refused, or accepted.
func (n *named) fence() {
	var last write            // that was accepted
	told := map[string]bool{} // one word for each claim is enough
	for _, w := range n.writes {
		broken := slices.ContainsFunc(n.breaks, func(b operation) bool { return b.Call < w.Return })
		text := ""
		switch {
		case told[w.Claim]:
		case w.Accepted && w.Token < last.Token:
			text = fmt.Sprintf("a stale write was accepted: claim %s wrote with token %d after token %d", w.Claim, w.Token, last.Token)
		case w.Accepted && w.Token == last.Token && w.Claim != last.Claim:
			text = fmt.Sprintf("claims %s and %s wrote with the same token %d", last.Claim, w.Claim, w.Token)
		case !w.Accepted && w.Trusted && !broken && !n.AssumptionsBroken: // else somebody else may have the name, too
			text = fmt.Sprintf("the holder (claim %s, token %d) was refused: the resource had seen token %d of claim %s",
				w.Claim, w.Token, last.Token, last.Claim)
		}
		if text != "" {
			told[w.Claim] = true
			n.violated(CheckFence, w.Return, "%s", text)
		}
		if w.Accepted && w.Token >= last.Token {
			last = w
		}
	}
}

// losses finds holders who were not told that their lease was over.
func (n *named) losses() {
	for _, t := range n.holds {
		late, told := n.h.late(t)
		switch {
		case t.Ending == endingGivenUp || t.Ending == endingAbandoned || t.Ending == endingKilled:
		case told && late > n.Patience:
			n.violated(CheckLoss, t.Until, "the holder (worker %d, claim %s) heard of the end of its trust %s late", t.Worker, t.Claim, seconds(late))
		case !told && n.end > t.Until+n.Patience:
			n.violated(CheckLoss, t.Until, "the holder (worker %d, claim %s) never heard of the end of its trust", t.Worker, t.Claim)
		}
	}
}

// answers finds grants of something that was not asked for, and calls that went on long
// after their context had ended, or forever.
func (n *named) answers() {
	for _, o := range n.operations {
		if o.Stray != "" {
			n.violated(CheckAnswer, o.Return, "%s of claim %s by worker %d was answered to the %s with a grant for %s, claim %s",
				o.Verb, o.Claim, o.Worker, o.Layer, o.Stray, o.StrayClaim)
		}
		if o.Return == 0 && o.Result == resultUnknown && n.h.Closed > 0 && !slices.Contains(n.h.Killed, o.Worker) {
			n.violated(CheckHang, o.Call, "%s of claim %s by worker %d (%s) never returned", o.Verb, o.Claim, o.Worker, o.Layer)
		}
		if o.Overrun > n.Patience && !n.h.stopped(o) {
			n.violated(CheckHang, o.Return, "%s of claim %s (%s) went on for %s after its context had ended", o.Verb, o.Claim, o.Layer, seconds(o.Overrun))
		}
	}
}

// ghosts finds claims that were granted after they had been released. A provider
// need remember only the last claim that was given up of each name, so there must
// be no other that may have been given up since.
func (n *named) ghosts(seen []operation) {
	for _, o := range seen {
		i := slices.IndexFunc(seen, func(r operation) bool {
			return r.Verb == "release" && r.Result == resultDone && r.Claim == o.Claim && r.Return < o.Call && o.granted() && !forgotten(seen, r, o)
		})
		if i >= 0 {
			n.violated(CheckGhost, o.Return, "claim %s was granted (token %d) after its release at %s, the last of the name", o.Claim, o.Token, seconds(seen[i].Return))
		}
	}
}

// forgotten says whether another claim may have been given up between a release
// and an acquire. A break names no claim.
func forgotten(operations []operation, release, acquire operation) bool {
	return slices.ContainsFunc(operations, func(o operation) bool {
		ends := o.Verb == "break" || o.Verb == "release" && o.Claim != release.Claim
		over := o.Result != resultUnknown && o.Return < release.Call
		return ends && !over && o.Call <= acquire.Return
	})
}

// unreleased finds claims that were refused as given up although nobody had done so.
func (n *named) unreleased() {
	claims, broken := newClaims(n.operations), time.Duration(never)
	for _, o := range n.operations {
		if o.Verb == "break" {
			broken = min(broken, o.Call)
		}
	}
	for _, o := range n.operations {
		if o.Result == resultReleased && o.Return < min(claims.of(o.Claim).left, broken) {
			n.violated(CheckRefusal, o.Return, "%s of claim %s was refused as that of a claim which was given up, and nobody had done so", o.Verb, o.Claim)
		}
	}
}

// overdue finds claims that were refused because of a lease that must have run out by
// then. Those of an unknown end are left alone.
func (n *named) overdue() {
	const unknown = math.MaxInt64 / 2
	seen := seenBy(n.operations, layerBackend)
	ends := map[string]time.Duration{} // of each claim's leases, at the latest
	for _, o := range seen {
		switch {
		case o.Verb != "acquire" && o.Verb != "renew":
		case o.Result == resultUnknown || o.Result == resultDone && o.TTL == leasing.Infinite:
			ends[o.Claim] = unknown
		case o.Result == resultDone:
			ends[o.Claim] = max(ends[o.Claim], o.Return+o.TTL)
		}
	}
	for _, o := range seen {
		end, ok := ends[o.Holder]
		if ok && o.Result == resultHeld && o.Call > end+n.drift+n.precision {
			n.violated(CheckLeak, o.Return, "claim %s was refused because of claim %s, whose lease had run out %s before", o.Claim, o.Holder, seconds(o.Call-end))
			delete(ends, o.Holder) // one word for each lease is enough
		}
	}
}
