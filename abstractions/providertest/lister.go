package providertest

import (
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
)

var listerChecks = []check{
	{name: "List_EachNameOnceOverAllPages", run: func(e *env) {
		lister, prefix, claims := e.listing(23)
		for _, limit := range []int{0, 1, 5, 23, 24, 5000} {
			records := e.list(lister, abstractions.ListRequest{Prefix: prefix, Limit: limit})
			e.Equal(namesOfClaims(claims), namesOf(records), "limit %d", limit)
		}
	}},
	{name: "List_HeldOnlyLeavesOutFreeNames", run: func(e *env) {
		lister, prefix, claims := e.listing(8)
		for _, c := range claims[:4] {
			c.release()
		}
		e.Equal(namesOfClaims(claims), namesOf(e.list(lister, abstractions.ListRequest{Prefix: prefix, Limit: 3})), "remembered names too")
		e.Equal(namesOfClaims(claims[4:]), namesOf(e.list(lister, abstractions.ListRequest{Prefix: prefix, Limit: 3, HeldOnly: true})))
	}},
	// It lists everything, which may be much on a shared backend.
	{name: "List_PagesAreBounded", run: func(e *env) {
		lister, _, claims := e.listing(3)
		page, err := send(e, lister.List, abstractions.ListRequest{})
		e.NoError(err)
		e.LessOrEqual(len(page.Records), 100)
		if page.Next == "" {
			names := namesOf(page.Records)
			for _, c := range claims {
				e.Contains(names, c.req.Name)
			}
		}
		page, err = send(e, lister.List, abstractions.ListRequest{Prefix: e.name()})
		e.NoError(err)
		e.Empty(page.Records, "there is no such name")
	}},
	{name: "List_OthersComeAndGoMeanwhile", run: func(e *env) {
		lister, prefix, claims := e.listing(12)
		count := map[string]int{}
		req := abstractions.ListRequest{Prefix: prefix, Limit: 2}
		for page := range 1000 {
			result, err := send(e, lister.List, req)
			e.NoError(err)
			for _, record := range result.Records {
				count[record.Name]++
			}
			if result.Next == "" {
				break
			}
			req.After = result.Next
			if page < 5 { // a listing ends only if the names do
				for _, end := range []string{"!", "05a", "~"} { // before, between, after
					e.take(fmt.Sprintf("%s%s%d", prefix, end, page)).release()
				}
			}
		}
		for _, c := range claims {
			e.Equal(1, count[c.req.Name], "%q is there all the time", c.req.Name)
		}
	}},
	{name: "Trap_T25_PrefixIsNoPattern", run: func(e *env) {
		lister, prefix, _ := e.listing(0)
		names := []string{prefix + "ab", prefix + "aB", prefix + "a%b", prefix + "a_b", prefix + "a*b", prefix + "a?b", prefix + `a\b`, prefix + "a[b]", prefix + "a'b", prefix + "é", prefix + "\U0010ffff"}
		for _, name := range names {
			e.take(name)
		}
		for _, name := range names {
			e.Equal([]string{name}, namesOf(e.list(lister, abstractions.ListRequest{Prefix: name})), "prefix %q", name)
		}
		for _, pattern := range []string{"%", "_", "*", "?", "a%%", "a__", "[a]", `\`, "A", "."} {
			e.Empty(e.list(lister, abstractions.ListRequest{Prefix: prefix + pattern}), "prefix %q", pattern)
		}
	}},
}

// list reads all pages.
func (e *env) list(lister abstractions.Lister, req abstractions.ListRequest) []abstractions.Record {
	return pages(e, req.PageLimit(), func(after string) ([]abstractions.Record, string, error) {
		req.After = after
		page, err := send(e, lister.List, req)
		return page.Records, page.Next, err
	})
}

func namesOf(records []abstractions.Record) []string {
	names := make([]string, len(records))
	for i, record := range records {
		names[i] = record.Name
	}
	slices.Sort(names)
	return names
}

// listing makes n held names with a common prefix.
func (e *env) listing(n int) (lister abstractions.Lister, prefix string, claims []*claim) {
	lister = ability[abstractions.Lister](e, e.peer)
	prefix = e.name() + "/"
	for i := range n {
		claims = append(claims, e.take(fmt.Sprintf("%s%02d", prefix, i)))
	}
	return lister, prefix, claims
}

func namesOfClaims(claims []*claim) []string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = c.req.Name
	}
	return names
}
