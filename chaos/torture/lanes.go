package torture

import (
	"cmp"
	"slices"
	"time"
)

func trusts(holds []Hold) (all []span) {
	for _, t := range holds {
		all = append(all, span{t.From, t.trusted()})
	}
	return all
}

// place is one of several lanes of a row.
type place struct{ lane, of int }

// lanes puts spans that overlap into lanes of their own. One that touches no other
// has the row for itself.
func lanes(spans []span) []place {
	order := make([]int, len(spans))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(spans[a].from, spans[b].from) })
	places := make([]place, len(spans))
	var ends []time.Duration // of the lanes that are taken
	begin := 0               // of those that overlap, if only by way of others
	for n, i := range order {
		if n > begin && slices.Max(ends) <= spans[i].from {
			ends, begin = nil, n
		}
		at := slices.IndexFunc(ends, func(end time.Duration) bool { return end <= spans[i].from })
		if at < 0 {
			at, ends = len(ends), append(ends, 0)
		}
		ends[at], places[i].lane = spans[i].to, at
		for _, j := range order[begin : n+1] {
			places[j].of = len(ends)
		}
	}
	return places
}

// sharedTimes are those in which two trusted a name, and nobody had broken the
// lease of one of them.
func sharedTimes(holds []Hold, breaks []Operation) (shared []span) {
	var until time.Duration
	for _, t := range slices.SortedStableFunc(slices.Values(holds), func(a, b Hold) int { return cmp.Compare(a.From, b.From) }) {
		end := trustBefore(t, breaks)
		both := span{t.From, min(end, until)}
		switch last := len(shared) - 1; {
		case both.to <= both.from:
		case last >= 0 && shared[last].to >= both.from: // a third one
			shared[last].to = max(shared[last].to, both.to)
		default:
			shared = append(shared, both)
		}
		until = max(until, end)
	}
	return shared
}
