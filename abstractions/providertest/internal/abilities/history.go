package abilities

import (
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var historyChecks = []suite.Check{
	{Name: "History_RecordsWhenALeaseRanOut", Waits: true, Run: func(e *suite.Env) {
		reader := suite.Ability[abstractions.HistoryReader](e, e.P)
		holder := e.ExpiredClaim()
		e.Take(holder.Req.Name)
		entries := e.History(reader, abstractions.HistoryRequest{Name: holder.Req.Name})
		e.Len(entries, 3)
		e.Equal(abstractions.HistoryExpired, entries[1].Kind)
		lasted := entries[1].Time.Sub(entries[0].Time)
		e.GreaterOrEqual(lasted, e.Short-e.Tolerance(e.Short), "from the acquire to the expiry")
		e.LessOrEqual(lasted, e.Short+e.Caps.Lateness.After(e.Short)+e.Tolerance(e.Short), "from the acquire to the expiry, and not to its discovery")
	}},
	{Name: "History_IsReadInPages", Run: func(e *suite.Env) {
		reader := suite.Ability[abstractions.HistoryReader](e, e.P)
		name := e.Name()
		for range 5 {
			e.Take(name).Release()
		}
		all := e.History(reader, abstractions.HistoryRequest{Name: name})
		e.Len(all, 10)
		back := slices.Clone(all)
		slices.Reverse(back)
		for _, limit := range []int{1, 3, 10, 11} {
			e.Equal(all, e.History(reader, abstractions.HistoryRequest{Name: name, Limit: limit}), "limit %d", limit)
			e.Equal(back, e.History(reader, abstractions.HistoryRequest{Name: name, Limit: limit, NewestFirst: true}), "limit %d, newest first", limit)
		}
	}},
	{Name: "History_HasTheLatest", Run: func(e *suite.Env) {
		reader := suite.Ability[abstractions.HistoryReader](e, e.P)
		name := e.Name()
		for range 60 { // which may be more than the history keeps
			e.Take(name).Release()
		}
		last := e.Take(name)
		entries := e.History(reader, abstractions.HistoryRequest{Name: name})
		e.Equal(last.Token(), entries[len(entries)-1].Token)
		e.Equal(abstractions.HistoryAcquired, entries[len(entries)-1].Kind)
	}},
}
