package torture

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// byName groups what belongs to each name.
func byName[T any](all []T, name func(T) string) map[string][]T {
	groups := map[string][]T{}
	for _, one := range all {
		groups[name(one)] = append(groups[name(one)], one)
	}
	return groups
}

// each calls fn for the groups in the order of their names.
func each[T any](groups map[string][]T, fn func(name string, group []T)) {
	names := make([]string, 0, len(groups))
	for name := range groups {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		fn(name, groups[name])
	}
}

// overlaps finds those who trusted a name while somebody else did.
func overlaps(h *History) (found []Violation) {
	breaks := immediateBreaks(h)
	each(byName(h.Holds, func(t Hold) string { return t.Name }), func(name string, holds []Hold) {
		slices.SortStableFunc(holds, func(a, b Hold) int { return cmp.Compare(a.From, b.From) })
		var before Hold // whose trust lasts longest
		var until time.Duration
		for i, t := range holds {
			if i > 0 && t.From < until {
				found = append(found, Violation{Check: CheckOverlap, Name: name, At: t.From, Text: fmt.Sprintf(
					"worker %d (claim %s, token %d) was granted the name while worker %d (claim %s, token %d) still trusted its lease, for %s more",
					t.Worker, t.Claim, t.Token, before.Worker, before.Claim, before.Token, seconds(until-t.From))})
			}
			if end := trustBefore(t, breaks[name]); end >= until {
				before, until = t, end
			}
		}
	})
	return found
}

// trustBefore is the end of a hold's trust, or of the exclusion that goes with
// it if an operator has broken the lease.
func trustBefore(t Hold, breaks []Operation) time.Duration {
	end := t.trusted()
	for _, b := range breaks {
		if over := b.Return; b.Call < end && (over == 0 || over >= t.From) {
			end = max(b.Call, t.From)
		}
	}
	return end
}

// immediateBreaks are those that have, or may have, ended a lease at once.
func immediateBreaks(h *History) map[string][]Operation {
	breaks := map[string][]Operation{}
	for _, o := range h.Operations {
		if o.Verb == "break" && o.Immediate && (o.Result == ResultDone || o.Result == ResultUnknown) {
			breaks[o.Name] = append(breaks[o.Name], o)
		}
	}
	return breaks
}

// tokens finds grants whose token is not higher than that of every grant that
// was over before they were asked for.
func tokens(h *History, _ VerifyOptions) (found []Violation) {
	granted := func(o Operation) bool { return o.Verb == "acquire" && o.Result == ResultDone }
	for _, layer := range []Layer{LayerClient, LayerBackend} {
		grants := slices.DeleteFunc(slices.Clone(h.Operations), func(o Operation) bool { return o.Layer != layer || !granted(o) })
		each(byName(grants, func(o Operation) string { return o.Name }), func(name string, grants []Operation) {
			found = append(found, falling(name, grants)...)
			found = append(found, shared(name, grants)...)
		})
	}
	return slices.CompactFunc(found, func(a, b Violation) bool { return a.Text == b.Text })
}

// falling goes through the grants in the order of their calls, beside the same
// in the order of their returns.
func falling(name string, grants []Operation) (found []Violation) {
	calls := slices.Clone(grants)
	slices.SortStableFunc(calls, func(a, b Operation) int { return cmp.Compare(a.Call, b.Call) })
	returns := slices.Clone(grants)
	slices.SortStableFunc(returns, func(a, b Operation) int { return cmp.Compare(a.Return, b.Return) })
	var highest Operation
	for _, o := range calls {
		for len(returns) > 0 && returns[0].Return < o.Call {
			if returns[0].Token > highest.Token {
				highest = returns[0]
			}
			returns = returns[1:]
		}
		if o.Token < highest.Token || o.Token == highest.Token && o.Claim != highest.Claim {
			found = append(found, Violation{Check: CheckTokens, Name: name, At: o.Return, Text: fmt.Sprintf(
				"claim %s was granted token %d after claim %s had been granted token %d", o.Claim, o.Token, highest.Claim, highest.Token)})
		}
	}
	return found
}

// shared finds tokens that two claims were granted.
func shared(name string, grants []Operation) (found []Violation) {
	owners := map[int64]Operation{}
	for _, o := range grants {
		if other, ok := owners[o.Token]; ok && other.Claim != o.Claim {
			found = append(found, Violation{Check: CheckTokens, Name: name, At: o.Return, Text: fmt.Sprintf(
				"token %d was granted to claim %s and to claim %s", o.Token, other.Claim, o.Claim)})
		}
		owners[o.Token] = o
	}
	return found
}

// fence finds writes that the resource should have refused, or accepted.
func fence(h *History, options VerifyOptions) (found []Violation) {
	breaks := immediateBreaks(h)
	each(byName(h.Writes, func(w Write) string { return w.Name }), func(name string, writes []Write) {
		var last Write
		told := map[string]bool{} // one word for each claim is enough
		for _, w := range writes {
			w.Trusted = w.Trusted && !options.AssumptionsBroken // or somebody else may have the name, too
			if text := misjudged(w, last, breaks[name]); text != "" && !told[w.Claim] {
				told[w.Claim] = true
				found = append(found, Violation{Check: CheckFence, Name: name, At: w.Return, Text: text})
			}
			if w.Accepted && w.Token >= last.Token {
				last = w
			}
		}
	})
	return found
}

// misjudged says what is wrong with the resource's answer to a write, after the
// last one that it accepted.
func misjudged(w, last Write, breaks []Operation) string {
	switch {
	case w.Accepted && w.Token < last.Token:
		return fmt.Sprintf("a stale write was accepted: claim %s wrote with token %d after token %d", w.Claim, w.Token, last.Token)
	case w.Accepted && w.Token == last.Token && w.Claim != last.Claim:
		return fmt.Sprintf("claims %s and %s wrote with the same token %d", last.Claim, w.Claim, w.Token)
	case !w.Accepted && w.Trusted && !anyBefore(breaks, w.Return):
		return fmt.Sprintf("the holder (claim %s, token %d) was refused: the resource had seen token %d of claim %s",
			w.Claim, w.Token, last.Token, last.Claim)
	}
	return ""
}

func anyBefore(operations []Operation, at time.Duration) bool {
	return slices.ContainsFunc(operations, func(o Operation) bool { return o.Call < at })
}

// losses finds holders who were not told that their lease was over.
func losses(h *History, options VerifyOptions) (found []Violation) {
	end := h.end()
	for _, t := range h.Holds {
		late, told := h.late(t)
		switch {
		case t.Ending == EndingGivenUp || t.Ending == EndingAbandoned || t.Ending == EndingKilled:
		case told && late > options.Patience:
			found = append(found, Violation{Check: CheckLoss, Name: t.Name, At: t.Until, Text: fmt.Sprintf(
				"the holder (worker %d, claim %s) heard of the end of its trust %s late", t.Worker, t.Claim, seconds(late))})
		case !told && end > t.Until+options.Patience:
			found = append(found, Violation{Check: CheckLoss, Name: t.Name, At: t.Until, Text: fmt.Sprintf(
				"the holder (worker %d, claim %s) never heard of the end of its trust", t.Worker, t.Claim)})
		}
	}
	return found
}

// seenBy are the operations that one layer saw. Clients know nothing of the breaks
// that befall them: those are taken from below.
func seenBy(operations []Operation, layer Layer) (seen []Operation) {
	for _, o := range operations {
		if o.Layer == layer || o.Verb == "break" && o.Layer == LayerBackend {
			seen = append(seen, o)
		}
	}
	return seen
}

// leaks finds names that did not become free.
func leaks(h *History, _ VerifyOptions) (found []Violation) {
	for _, f := range h.Free {
		if f.At == 0 || f.At > f.By {
			found = append(found, Violation{Check: CheckLeak, Name: f.Name, At: f.By, Text: fmt.Sprintf(
				"nobody holds the name, but it was not free %s after the last client was closed", seconds(f.By-h.Closed))})
		}
	}
	return found
}

// hangs finds calls that went on long after their context had ended, or forever.
func hangs(h *History, options VerifyOptions) (found []Violation) {
	for _, o := range h.Operations {
		if o.Return == 0 && o.Result == ResultUnknown && h.Closed > 0 && !slices.Contains(h.Killed, o.Worker) {
			found = append(found, Violation{Check: CheckHang, Name: o.Name, At: o.Call, Text: fmt.Sprintf(
				"%s of claim %s by worker %d (%s) never returned", o.Verb, o.Claim, o.Worker, o.Layer)})
		}
		if o.Overrun > options.Patience && !h.stopped(o) {
			found = append(found, Violation{Check: CheckHang, Name: o.Name, At: o.Return, Text: fmt.Sprintf(
				"%s of claim %s (%s) went on for %s after its context had ended", o.Verb, o.Claim, o.Layer, seconds(o.Overrun))})
		}
	}
	return found
}
