package suite

import (
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

// pages reads all pages of a list, each from the end of the one before.
func pages[T any](e *Env, limit int, page func(after string) (items []T, next string, err error)) (all []T) {
	after := ""
	for range 1000 {
		items, next, err := page(after)
		e.NoError(err)
		e.LessOrEqual(len(items), limit, "what is on a page")
		if all = append(all, items...); next == "" {
			return all
		}
		after = next
	}
	e.Fail("the pages do not end")
	return nil
}

// List reads all pages.
func (e *Env) List(lister abstractions.Lister, req abstractions.ListRequest) []abstractions.Record {
	return pages(e, req.PageLimit(), func(after string) ([]abstractions.Record, string, error) {
		req.After = after
		page, err := Send(e, lister.List, req)
		return page.Records, page.Next, err
	})
}

// History reads all pages, leaving out renewals, which are optional.
func (e *Env) History(reader abstractions.HistoryReader, req abstractions.HistoryRequest) []abstractions.HistoryEntry {
	entries := pages(e, req.PageLimit(), func(after string) ([]abstractions.HistoryEntry, string, error) {
		req.After = after
		page, err := Send(e, reader.History, req)
		return page.Entries, page.Next, err
	})
	return slices.DeleteFunc(entries, func(entry abstractions.HistoryEntry) bool { return entry.Kind == abstractions.HistoryRenewed })
}
