package check

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// tokens finds grants whose token is not higher than the token of every grant that
// had ended before the request, tokens that two claims share, and tokens that are behind the
// backend's clock.
func (n *nameHistory) tokens() {
	for _, layer := range layers {
		n.tokensOf(slices.DeleteFunc(seenBy(n.operations, layer), func(o history.Operation) bool { return !o.Granted() }))
	}
}

func (n *nameHistory) tokensOf(grants []history.Operation) {
	slices.SortStableFunc(grants, func(a, b history.Operation) int { return cmp.Compare(a.Call, b.Call) })
	returns := slices.SortedStableFunc(slices.Values(grants), func(a, b history.Operation) int { return cmp.Compare(a.Return, b.Return) })
	var highest history.Operation // the grant with the highest token among those that had returned
	claims := map[int64]string{}
	for _, o := range grants {
		for returns[0].Return < o.Call {
			if returns[0].Token > highest.Token {
				highest = returns[0]
			}
			returns = returns[1:]
		}
		if o.Token < highest.Token {
			n.violation(o.Return, "claim %s was granted token %d after claim %s had been granted token %d", o.Claim, o.Token, highest.Claim, highest.Token)
		}
		if other, ok := claims[o.Token]; ok && other != o.Claim {
			n.violation(o.Return, "token %d was granted to claim %s and to claim %s", o.Token, other, o.Claim)
		}
		claims[o.Token] = o.Claim
		if o.Token < n.h.Backend-time.Minute.Microseconds() {
			n.violation(o.Return, "claim %s was granted token %d, and the backend's clock is beyond %d", o.Claim, o.Token, n.h.Backend)
		}
	}
}

// fence finds writes that the resource should have refused, and refusals of writes that it should have accepted.
func (n *nameHistory) fence() {
	var last history.Write        // the latest accepted write
	reported := map[string]bool{} // one violation for each claim is enough
	broken := time.Duration(math.MaxInt64)
	for _, breaks := range n.breaks {
		broken = min(broken, breaks[0].Call)
	}
	for _, w := range n.writes {
		text := ""
		switch {
		case reported[w.Claim]:
		case w.Accepted && w.Token < last.Token:
			text = fmt.Sprintf("a stale write was accepted: claim %s wrote with token %d after token %d", w.Claim, w.Token, last.Token)
		case w.Accepted && w.Token == last.Token && w.Claim != last.Claim:
			text = fmt.Sprintf("claims %s and %s wrote with the same token %d", last.Claim, w.Claim, w.Token)
		case !w.Accepted && w.Trusted && broken > w.Return && !n.AssumptionsBroken: // otherwise another claim may hold the name, too
			text = fmt.Sprintf("the holder (claim %s, token %d) was refused: the resource had seen token %d of claim %s",
				w.Claim, w.Token, last.Token, last.Claim)
		}
		if text != "" {
			reported[w.Claim] = true
			n.violation(w.Return, "%s", text)
		}
		if w.Accepted && w.Token >= last.Token {
			last = w
		}
	}
}

// answers finds grants that do not match their request, and refusals that do not name the
// holder.
func (n *nameHistory) answers() {
	for _, w := range n.waits {
		if w.Result != history.ResultHeld || n.Votes {
			continue
		}
		own := slices.ContainsFunc(n.holds, func(t history.Hold) bool {
			return t.Worker == w.Worker && t.Claim == w.Holder && t.From < w.From && t.Trusted() > w.To
		})
		if own && !w.Own {
			n.violation(w.To, "an acquire of worker %d reported claim %s as the holder, and not that it is its manager's own", w.Worker, w.Holder)
		}
		if w.Holder == "" && !slices.ContainsFunc(n.operations, func(o history.Operation) bool {
			return o.Worker == w.Worker && o.Layer == history.LayerClient && o.Verb == "acquire" && o.Return >= w.From && o.Call <= w.To && o.Holder == ""
		}) {
			n.violation(w.To, "an acquire of worker %d reported that the name is held, without the holder", w.Worker)
		}
	}
	for _, o := range n.operations {
		if o.Unanswered && o.Layer == history.LayerBackend {
			n.violation(o.Return, "%s of claim %s by worker %d has no answer in that of its batch", o.Verb, o.Claim, o.Worker)
		}
		if o.WrongName != "" {
			n.violation(o.Return, "%s of claim %s by worker %d was answered to the %s with a grant for %s, claim %s",
				o.Verb, o.Claim, o.Worker, o.Layer, o.WrongName, o.WrongClaim)
		}
	}
}

// metadata finds leases and backend records that do not show the holder, or the metadata that the
// holder has set. A request without an answer may have changed the record.
func (n *nameHistory) metadata() {
	for _, s := range n.readings {
		ambiguous := slices.ContainsFunc(n.claim(s.Claim).clientOps, func(o *history.Operation) bool {
			return o.Verb == "renew" && o.Result == history.ResultUnknown && o.Call < s.Return
		})
		mine := s.Holder == s.Claim && (s.HolderToken == s.Token || n.Votes && s.HolderToken > s.Token)
		switch {
		case mine && s.Other != "":
			n.violation(s.Return, "the backend shows owner %q to worker %d, the holder of claim %s", s.Other, s.Worker, s.Claim)
		case s.Metadata != "" && s.Has != s.Metadata:
			n.violation(s.Return, "claim %s has metadata %q by its lease, and has set %q", s.Claim, s.Has, s.Metadata)
		case !s.Trusted || n.AssumptionsBroken:
		case !mine && len(n.breaks) == 0:
			n.violation(s.Return, "the backend shows claim %s, token %d, to the holder of claim %s, token %d", s.Holder, s.HolderToken, s.Claim, s.Token)
		case mine && s.Metadata != "" && s.Shown != s.Metadata && !ambiguous:
			n.violation(s.Return, "the backend shows metadata %q to the holder of claim %s, who has set %q", s.Shown, s.Claim, s.Metadata)
		}
	}
}

// listing finds holders whose names the backend does not list exactly once, and names that were
// listed twice or not requested.
func (n *nameHistory) listing() {
	for _, s := range n.readings {
		switch {
		case !s.Listed:
		case s.Strange != "":
			n.violation(s.Return, "a list shows %s", s.Strange)
		case s.Trusted && s.Holder == s.Claim && len(n.breaks) == 0 && !n.Votes && (s.AsHeld != 1 || s.AsName != 1):
			n.violation(s.Return, "the name of claim %s is listed %d times among those that are held, and %d times by itself", s.Claim, s.AsHeld, s.AsName)
		}
	}
}

// remembered is the minimum number of ended claims that a name refuses: see Provider.Acquire.
const remembered = 8

// ghosts finds claims that were granted after their release. A provider need remember only
// the last eight released claims of a name. Each voting server remembers its own last eight, which
// may differ from server to server: with votes a grant is a violation only if no other claim was released, and no lease
// broken, since that release.
func (n *nameHistory) ghosts() {
	for _, c := range n.claims {
		for layer, seen := range map[history.Layer][]*history.Operation{history.LayerClient: c.clientOps, history.LayerBackend: c.backendOps} {
			for _, o := range seen {
				if r := firstRelease(seen, o); o.Granted() && r != nil && !n.mayForget(seenBy(n.operations, layer), r, o) {
					n.violation(o.Return, "claim %s was granted (token %d) after its release at %s, one of the last of the name", o.Claim, o.Token, history.Seconds(r.Return))
				}
			}
		}
	}
}

// firstRelease returns the first release of a claim, if one of its releases had returned before the given acquire
// of the claim. A claim that is released again may keep its place among the remembered claims.
func firstRelease(claim []*history.Operation, acquire *history.Operation) (release *history.Operation) {
	over := false
	for _, o := range claim {
		if o.Verb != "release" || o.Result != history.ResultDone && o.Result != history.ResultUnknown {
			continue
		}
		over = over || o.Result == history.ResultDone && o.Before(acquire)
		if release == nil || o.Call < release.Call {
			release = o
		}
	}
	if !over {
		return nil
	}
	return release
}

// mayForget reports whether a provider may have forgotten a release by the time of an acquire,
// because enough other claims may have been released in between. Each break counts, since a break
// names no claim.
func (n *nameHistory) mayForget(operations []history.Operation, release, acquire *history.Operation) bool {
	others, breaks := map[string]bool{}, 0
	for _, o := range operations {
		if over := o.Result != history.ResultUnknown && o.Before(release); over || o.Call > acquire.Return {
			continue
		}
		switch {
		case o.Verb == "break":
			breaks++
		case o.Verb == "release" && o.Claim != release.Claim:
			others[o.Claim] = true
		}
	}
	since := len(others) + breaks
	return since >= remembered || n.Votes && since > 0
}

// refusals finds claims that were refused as released, without a release of the claim or a break of the name.
func (n *nameHistory) refusals() {
	for _, o := range n.operations {
		given := func(up history.Operation) bool {
			return (up.Verb == "break" || up.Verb == "release" && up.Claim == o.Claim) && up.Call <= o.Return
		}
		if o.Result == history.ResultReleased && !slices.ContainsFunc(n.operations, given) {
			n.violation(o.Return, "%s of claim %s was refused as that of a released claim, although no release and no break was sent", o.Verb, o.Claim)
		}
	}
}

// breakResults finds breaks that hit a different lease from the intended one, and claims that came back after a
// break. It also finds renewals of a broken lease whose replies do not name the first break of the lease.
func (n *nameHistory) breakResults() {
	first, freed := map[int64]*history.Operation{}, map[int64]bool{} // by token: the first break of the lease, and whether an operation has freed the name
	tokens, ends := map[string]int64{}, map[string]time.Duration{}
	for i := range n.operations {
		o := &n.operations[i]
		if o.Layer != history.LayerBackend {
			continue
		}
		b := first[tokens[o.Claim]]
		over := b != nil && b.Result == history.ResultDone && b.Before(o)
		switch {
		case o.Verb == "break" && o.Result == history.ResultDone && o.IfToken != 0 && o.Token != o.IfToken:
			n.violation(o.Return, "a break that was meant for token %d has met token %d", o.IfToken, o.Token)
		case o.Verb == "break" && (o.Result == history.ResultUnknown || o.Token != 0 && !o.NoHolder) && first[o.Token] == nil:
			first[o.Token], freed[o.Token] = o, o.Immediate
		case o.Verb == "break" && o.Immediate:
			freed[o.Token] = true
		case o.Verb == "release":
			freed[tokens[o.Claim]] = true
		case over && o.Extends() && !(o.Granted() && n.mayForget(n.operations, b, o)):
			n.violation(o.Return, "%s, which was broken at %s", o, history.Seconds(b.Return))
		case over && o.Verb == "renew" && o.Why == leasing.LostBroken && !freed[b.Token] && first[0] == nil && o.Return < ends[o.Claim] && o.By != b.By && !n.freedMeanwhile(o, n.operations[i:]):
			n.violation(o.Return, "%s, as broken by %q, and the first break was by %q", o, o.By, b.By)
		}
		if o.Extends() {
			tokens[o.Claim], ends[o.Claim] = o.Token, after(o.Call, o.TTL, n.Margin(o.TTL))
			if o.TTL == leasing.Infinite { // once broken, the lease lasts for the grace
				ends[o.Claim] = 0
			}
		}
	}
}

// freedMeanwhile reports whether one of the later operations may have freed the name before a renewal reached
// the backend. The record then shows that the lease was broken, but no longer the actor of the break.
func (n *nameHistory) freedMeanwhile(renewal *history.Operation, later []history.Operation) bool {
	return slices.ContainsFunc(later, func(o history.Operation) bool {
		return o.Layer == history.LayerBackend && o.Call < renewal.Return &&
			(o.Verb == "release" && o.Claim == renewal.Claim || o.Verb == "break" && o.Immediate)
	})
}
