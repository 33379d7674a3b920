package torture

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
)

// What each grant and refusal must be by itself, whatever the order of all.

// ghosts finds claims that were granted after they had been released. A provider
// need remember only the last claim that was given up of each name, so there must
// be no other that may have been given up since.
func ghosts(h *History) (found []Violation) {
	each(byName(h.Operations, func(o Operation) string { return o.Name }), func(name string, operations []Operation) {
		for _, layer := range []Layer{LayerClient, LayerBackend} {
			seen := seenBy(operations, layer)
			releases := map[string][]Operation{} // by claim
			for _, o := range seen {
				if o.Verb == "release" && o.Result == ResultDone {
					releases[o.Claim] = append(releases[o.Claim], o)
				}
			}
			for _, o := range seen {
				if o.Verb != "acquire" || o.Result != ResultDone {
					continue
				}
				i := slices.IndexFunc(releases[o.Claim], func(r Operation) bool { return r.Return < o.Call && !forgotten(seen, r, o) })
				if i >= 0 {
					found = append(found, Violation{Check: CheckGhost, Name: name, At: o.Return, Text: fmt.Sprintf(
						"claim %s was granted (token %d) after its release at %s, the last of the name", o.Claim, o.Token, seconds(releases[o.Claim][i].Return))})
				}
			}
		}
	})
	return found
}

// forgotten says whether another claim may have been given up between a release
// and an acquire. A break names no claim.
func forgotten(operations []Operation, release, acquire Operation) bool {
	return slices.ContainsFunc(operations, func(o Operation) bool {
		ends := o.Verb == "break" || o.Verb == "release" && o.Claim != release.Claim
		over := o.Result != ResultUnknown && o.Return < release.Call
		return ends && !over && o.Call <= acquire.Return
	})
}

// strays finds grants of something that was not asked for.
func strays(h *History, _ VerifyOptions) (found []Violation) {
	for _, o := range h.Operations {
		if o.Stray != "" {
			found = append(found, Violation{Check: CheckAnswer, Name: o.Name, At: o.Return, Text: fmt.Sprintf(
				"%s of claim %s by worker %d was answered to the %s with a grant for %s, claim %s", o.Verb, o.Claim, o.Worker, o.Layer, o.Stray, o.StrayClaim)})
		}
	}
	return found
}

// unreleased finds claims that were refused as given up although nobody had done so.
func unreleased(h *History) (found []Violation) {
	each(byName(h.Operations, func(o Operation) string { return o.Name }), func(name string, operations []Operation) {
		left := map[string]time.Duration{} // when each claim was first asked to be released
		broken := time.Duration(math.MaxInt64)
		for _, o := range operations {
			switch o.Verb {
			case "release":
				earliest(left, o.Claim, o.Call)
			case "break":
				broken = min(broken, o.Call)
			}
		}
		for _, o := range operations {
			at, ok := left[o.Claim]
			if o.Result == ResultReleased && broken > o.Return && (!ok || at > o.Return) {
				found = append(found, Violation{Check: CheckRefusal, Name: name, At: o.Return, Text: fmt.Sprintf(
					"%s of claim %s was refused as that of a claim which was given up, and nobody had done so", o.Verb, o.Claim)})
			}
		}
	})
	return found
}

// overdue finds claims that were refused because of a lease that must have run out by
// then. Those of an unknown end are left alone.
func overdue(h *History, options VerifyOptions) (found []Violation) {
	const unknown = math.MaxInt64 / 2
	each(byName(h.Operations, func(o Operation) string { return o.Name }), func(name string, operations []Operation) {
		operations = seenBy(operations, LayerBackend)
		ends := map[string]time.Duration{} // of each claim's leases, at the latest
		for _, o := range operations {
			switch {
			case o.Verb != "acquire" && o.Verb != "renew":
			case o.Result == ResultUnknown || o.Result == ResultDone && o.TTL == leasing.Infinite:
				latest(ends, o.Claim, unknown)
			case o.Result == ResultDone:
				latest(ends, o.Claim, o.Return+o.TTL)
			}
		}
		told := map[string]bool{} // one word for each lease is enough
		for _, o := range operations {
			end, ok := ends[o.Holder]
			if ok && o.Result == ResultHeld && o.Call > end+options.Drift+options.Precision && !told[o.Holder] {
				told[o.Holder] = true
				found = append(found, Violation{Check: CheckLeak, Name: name, At: o.Return, Text: fmt.Sprintf(
					"claim %s was refused because of claim %s, whose lease had run out %s before", o.Claim, o.Holder, seconds(o.Call-end))})
			}
		}
	})
	return found
}
