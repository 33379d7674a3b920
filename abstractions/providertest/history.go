package providertest

import (
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

var historyChecks = []check{
	{name: "History_TellsWhatHappenedInOrder", run: historyInOrder, waits: true},
	{name: "History_IsReadInPages", run: historyInPages},
}

// history reads all pages, leaving out renewals, which are optional.
func (e *env) history(reader abstractions.HistoryReader, name string, limit int) []abstractions.HistoryEntry {
	e.t.Helper()
	var entries []abstractions.HistoryEntry
	req := abstractions.HistoryRequest{Name: name, Limit: limit}
	for range 1000 {
		ctx, cancel := e.call()
		page, err := reader.History(ctx, req)
		cancel()
		e.NoError(err)
		e.LessOrEqual(len(page.Entries), req.PageLimit(), "entries on a page")
		entries = append(entries, page.Entries...)
		if page.Next == "" {
			return slices.DeleteFunc(entries, func(entry abstractions.HistoryEntry) bool { return entry.Kind == abstractions.HistoryRenewed })
		}
		req.After = page.Next
	}
	e.Fail("the history does not end")
	return nil
}

func historyInOrder(e *env) {
	reader, ok := abstractions.As[abstractions.HistoryReader](e.p)
	if !ok {
		e.t.Log("no HistoryReader here")
		return
	}
	name := e.name()
	e.Empty(e.history(reader, name, 0))

	released := e.take(name)
	released.renew(e.long)
	released.release()
	broken := e.take(name)
	e.breaks(abstractions.BreakRequest{Name: name, Immediate: true})
	expired := e.acquire(e.p, e.shortRequest(name))
	expired.runOut()
	last := e.take(name)

	type entry struct {
		kind  abstractions.HistoryKind
		holds *claim
	}
	want := []entry{
		{abstractions.HistoryAcquired, released},
		{abstractions.HistoryReleased, released},
		{abstractions.HistoryAcquired, broken},
		{abstractions.HistoryBroken, broken},
		{abstractions.HistoryAcquired, expired},
		{abstractions.HistoryExpired, expired},
		{abstractions.HistoryAcquired, last},
	}
	got := e.history(reader, name, 0)
	e.Len(got, len(want))
	for i := range want {
		e.Equal(want[i].kind, got[i].Kind, "entry %d", i)
		e.Equal(want[i].holds.req.ID, got[i].ID, "entry %d", i)
		e.Equal(want[i].holds.req.Owner, got[i].Owner, "entry %d", i)
		e.Equal(want[i].holds.token(), got[i].Token, "entry %d", i)
		if i > 0 {
			e.False(got[i].Time.Before(got[i-1].Time), "entry %d is earlier than the one before", i)
		}
	}
	e.GreaterOrEqual(got[5].Time.Sub(got[4].Time), e.short-e.tolerance(e.short), "an expiry is told with the time at which the lease ran out")
	e.LessOrEqual(got[5].Time.Sub(got[4].Time), e.short+e.caps.Lateness.After(e.short)+e.tolerance(e.short))
}

func historyInPages(e *env) {
	reader, ok := abstractions.As[abstractions.HistoryReader](e.p)
	if !ok {
		e.t.Log("no HistoryReader here")
		return
	}
	name := e.name()
	for range 5 {
		e.take(name).release()
	}
	all := e.history(reader, name, 0)
	e.Len(all, 10)
	for _, limit := range []int{1, 3, 10, 11} {
		e.Equal(all, e.history(reader, name, limit), "limit %d", limit)
	}
}
