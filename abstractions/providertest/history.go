package providertest

import (
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

var historyChecks = []check{
	{name: "History_TellsWhenALeaseRanOut", waits: true, run: func(e *env) {
		reader := ability[abstractions.HistoryReader](e, e.p)
		holder := e.expired()
		e.take(holder.req.Name)
		entries := e.history(reader, abstractions.HistoryRequest{Name: holder.req.Name})
		e.Len(entries, 3)
		e.Equal(abstractions.HistoryExpired, entries[1].Kind)
		lasted := entries[1].Time.Sub(entries[0].Time)
		e.GreaterOrEqual(lasted, e.short-e.tolerance(e.short), "from the acquire to the expiry")
		e.LessOrEqual(lasted, e.short+e.caps.Lateness.After(e.short)+e.tolerance(e.short), "from the acquire to the expiry, and not to its discovery")
	}},
	{name: "History_IsReadInPages", run: func(e *env) {
		reader := ability[abstractions.HistoryReader](e, e.p)
		name := e.name()
		for range 5 {
			e.take(name).release()
		}
		all := e.history(reader, abstractions.HistoryRequest{Name: name})
		e.Len(all, 10)
		back := slices.Clone(all)
		slices.Reverse(back)
		for _, limit := range []int{1, 3, 10, 11} {
			e.Equal(all, e.history(reader, abstractions.HistoryRequest{Name: name, Limit: limit}), "limit %d", limit)
			e.Equal(back, e.history(reader, abstractions.HistoryRequest{Name: name, Limit: limit, NewestFirst: true}), "limit %d, newest first", limit)
		}
	}},
	{name: "History_HasTheLatest", run: func(e *env) {
		reader := ability[abstractions.HistoryReader](e, e.p)
		name := e.name()
		for range 60 { // which may be more than it keeps
			e.take(name).release()
		}
		last := e.take(name)
		entries := e.history(reader, abstractions.HistoryRequest{Name: name})
		e.Equal(last.token(), entries[len(entries)-1].Token)
		e.Equal(abstractions.HistoryAcquired, entries[len(entries)-1].Kind)
	}},
}

// history reads all pages, leaving out renewals, which are optional.
func (e *env) history(reader abstractions.HistoryReader, req abstractions.HistoryRequest) []abstractions.HistoryEntry {
	entries := pages(e, req.PageLimit(), func(after string) ([]abstractions.HistoryEntry, string, error) {
		req.After = after
		page, err := send(e, reader.History, req)
		return page.Entries, page.Next, err
	})
	return slices.DeleteFunc(entries, func(entry abstractions.HistoryEntry) bool { return entry.Kind == abstractions.HistoryRenewed })
}
