package sequencetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// Check returns the violations in a history, at most a few of each kind.
func (h *History) Check() (wrong []string) {
	for _, check := range []func(report func(string, ...any)){h.holes, h.outcomes, h.orphans, h.claimOrder, h.audit, h.readers, h.stalls} {
		found := 0
		check(func(format string, args ...any) {
			if found++; found <= 3 {
				wrong = append(wrong, fmt.Sprintf(format, args...))
			}
		})
	}
	return wrong
}

// holes checks that every issued number has a record, and is closed.
func (h *History) holes(report func(string, ...any)) {
	next := int64(1)
	for _, e := range h.Entries {
		for ; next < e.Seq; next++ {
			report("hole: %d has no record", next)
		}
		if next = e.Seq + 1; e.State.Open() {
			report("open: %d is still %s", e.Seq, e.State)
		}
	}
	for ; next <= h.Last; next++ {
		report("hole: %d has no record", next)
	}
}

func isResult(e *sequence.Entry) bool {
	return e.State == sequence.Committed || e.State == sequence.Filled
}

// outcomes checks that the application's table has one row for each result, that an operation has at most one
// result, and that each reported commit is in the table.
func (h *History) outcomes(report func(string, ...any)) {
	rows, ops, entries := map[string]int{}, map[string][]int64{}, map[int64]sequence.Entry{}
	for _, row := range h.Rows {
		rows[row]++
	}
	for _, e := range h.Entries {
		entries[e.Seq] = e
		if !isResult(&e) {
			continue
		}
		row := fmt.Sprintf("%s %d", e.Payload, e.Seq)
		if rows[row] != 1 {
			report("outcome: %d is %s, and has %d rows", e.Seq, e.State, rows[row])
		}
		delete(rows, row)
		ops[e.Op] = append(ops[e.Op], e.Seq)
	}
	for row := range rows {
		report("outcome: the row %q has no number", row)
	}
	for op, all := range ops {
		if len(all) > 1 {
			report("outcome: %s has the results %v", op, all)
		}
	}
	for op := range h.Saved {
		if len(ops[op]) == 0 {
			report("outcome: %s was reported as saved, and has no result", op)
		}
	}
	for op, seq := range h.Acknowledged {
		if e := entries[seq]; !isResult(&e) || e.Op != op {
			report("outcome: %s was reported as committed as %d, which is %s of %s", op, seq, e.State, e.Op)
		}
	}
}

// orphans checks that a recovered number names its successor, and that the successor names the recovered
// number.
func (h *History) orphans(report func(string, ...any)) {
	by := map[int64]sequence.Entry{}
	for _, e := range h.Entries {
		by[e.Seq] = e
	}
	for _, e := range h.Entries {
		if e.State == sequence.Recovered && (by[e.ReplacedBy].Origin != e.Seq || e.ReplacedBy <= e.Seq) {
			report("orphan: %d was recovered as %d, whose origin is %d", e.Seq, e.ReplacedBy, by[e.ReplacedBy].Origin)
		}
		if origin := by[e.Origin]; e.Origin != 0 && (origin.State != sequence.Recovered || origin.ReplacedBy != e.Seq) {
			report("orphan: %d has the work of %d, which is %s, replaced by %d", e.Seq, e.Origin, origin.State, origin.ReplacedBy)
		}
	}
}

// claimOrder checks that no number was claimed while a lower number had run out and was still unclaimed.
func (h *History) claimOrder(report func(string, ...any)) {
	if h.Stepped {
		return
	}
	first := map[int64]time.Time{} // from the audit, since a cleaner may not have received the reply
	for _, e := range slices.Backward(h.Events) {
		if e.Event == string(sequence.Recovering) {
			first[e.Seq] = e.At
		}
	}
	tokens := map[[2]int64]bool{}
	slices.SortFunc(h.Claims, func(a, b Claimed) int { return a.At.Compare(b.At) })
	for _, c := range h.Claims {
		if key := [2]int64{c.Seq, c.Token}; tokens[key] {
			report("claim: %d was claimed twice under token %d", c.Seq, c.Token)
		} else {
			tokens[key] = true
		}
	}
	for _, c := range h.Claims {
		for _, lower := range h.Entries {
			if lower.Seq >= c.Seq {
				break
			}
			claimed, ever := first[lower.Seq]
			if lower.Origin == 0 && ever && claimed.After(c.At) && !lower.ExpiresAt.After(c.At) && lower.ClosedAt.After(c.At) {
				report("claim: %d was claimed while %d had run out, and was claimed %v later", c.Seq, lower.Seq, claimed.Sub(c.At))
			}
		}
	}
}

// follows maps an event to the events that may come next.
var follows = map[string][]sequence.State{
	"":                          {sequence.Leased, sequence.Committed}, // a number for recovered work begins as committed
	string(sequence.Leased):     {sequence.Recovering, sequence.Committed, sequence.Gap},
	string(sequence.Recovering): {sequence.Recovering, sequence.Recovered, sequence.Gap, seqstore.EventFailed},
	seqstore.EventFailed:        {sequence.Recovering},
	string(sequence.Gap):        {sequence.Filled, sequence.Sealed},
}

// audit checks that a number's events form a valid sequence, and end with its present state.
func (h *History) audit(report func(string, ...any)) {
	last := map[int64]sequence.Event{}
	for _, e := range h.Events {
		before := last[e.Seq]
		token := before.Token
		if before.Event == "" || e.Event == string(sequence.Recovering) {
			token++
		}
		if !slices.Contains(follows[before.Event], sequence.State(e.Event)) || e.Token != token {
			report("audit: %d was %q under %d, and then %q under %d", e.Seq, before.Event, before.Token, e.Event, e.Token)
		}
		last[e.Seq] = e
	}
	for _, e := range h.Entries {
		if last[e.Seq].Event != string(e.State) && !e.State.Open() {
			report("audit: %d is %s, and its last event is %q", e.Seq, e.State, last[e.Seq].Event)
		}
	}
}

// readers checks that each reader has seen every number up to the seal once, in order, with the content
// that is in the store at the end.
func (h *History) readers(report func(string, ...any)) {
	var end []string
	for _, e := range h.Entries {
		end = append(end, fmt.Sprintf("%d %s %s %d", e.Seq, e.State, e.Payload, e.Origin))
	}
	for i, seen := range h.Readers {
		for n := range max(len(seen), len(end)) {
			switch {
			case n >= len(seen):
				report("reader %d has seen %d of %d entries", i, len(seen), len(end))
			case n >= len(end):
				report("reader %d has seen %q, which is not there", i, seen[n])
			case seen[n] != end[n]:
				report("reader %d has seen %q, and in the end it is %q", i, seen[n], end[n])
			default:
				continue
			}
			break
		}
	}
}

// stalls checks that the watermark did not stand still for longer than the limit.
func (h *History) stalls(report func(string, ...any)) {
	if h.Limit > 0 && h.Stood > h.Limit {
		report("standing: the watermark stood still for %v: %s", h.Stood, h.StoodBy)
	}
}

// String returns a summary of a history.
func (h *History) String() string {
	states := map[sequence.State]int{}
	for _, e := range h.Entries {
		states[e.State]++
	}
	var parts []string
	for _, s := range []sequence.State{sequence.Committed, sequence.Recovered, sequence.Filled, sequence.Gap, sequence.Sealed} {
		parts = append(parts, fmt.Sprintf("%d %s", states[s], s))
	}
	return fmt.Sprintf("%d numbers (%s), %d claims, %d late commits and %d stale cleaners refused, %d refused at COMMIT, %d readers begun again, stood for %v (%s)", len(h.Entries), strings.Join(parts, ", "), len(h.Claims), h.Late, h.Stale, h.Refused, h.Misplaced, h.Stood.Round(time.Millisecond), h.StoodBy)
}
