package abilities

import (
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

var listerChecks = []suite.Check{
	{Name: "List_EachNameOnceOverAllPages", Run: func(e *suite.Env) {
		lister, prefix, claims := takeNames(e, 23)
		for _, limit := range []int{0, 1, 5, 23, 24, 5000} {
			records := e.List(lister, abstractions.ListRequest{Prefix: prefix, Limit: limit})
			e.Equal(namesOfClaims(claims), namesOf(records), "limit %d", limit)
		}
	}},
	{Name: "List_HeldOnlyLeavesOutFreeNames", Run: func(e *suite.Env) {
		lister, prefix, claims := takeNames(e, 8)
		for _, c := range claims[:4] {
			c.Release()
		}
		e.Equal(namesOfClaims(claims), namesOf(e.List(lister, abstractions.ListRequest{Prefix: prefix, Limit: 3})), "remembered names too")
		e.Equal(namesOfClaims(claims[4:]), namesOf(e.List(lister, abstractions.ListRequest{Prefix: prefix, Limit: 3, HeldOnly: true})))
	}},
	// The check lists everything, which may be a lot on a shared backend.
	{Name: "List_PagesAreBounded", Run: func(e *suite.Env) {
		lister, _, claims := takeNames(e, 3)
		page, err := suite.Send(e, lister.List, abstractions.ListRequest{})
		e.NoError(err)
		e.LessOrEqual(len(page.Records), 100)
		if page.Next == "" {
			names := namesOf(page.Records)
			for _, c := range claims {
				e.Contains(names, c.Req.Name)
			}
		}
		page, err = suite.Send(e, lister.List, abstractions.ListRequest{Prefix: e.Name()})
		e.NoError(err)
		e.Empty(page.Records, "there is no such name")
	}},
	{Name: "List_OthersComeAndGoMeanwhile", Run: func(e *suite.Env) {
		lister, prefix, claims := takeNames(e, 12)
		count := map[string]int{}
		req := abstractions.ListRequest{Prefix: prefix, Limit: 2}
		for page := range 1000 {
			result, err := suite.Send(e, lister.List, req)
			e.NoError(err)
			for _, record := range result.Records {
				count[record.Name]++
			}
			if result.Next == "" {
				break
			}
			req.After = result.Next
			if page < 5 { // a listing ends only when no more names are added
				for _, end := range []string{"!", "05a", "~"} { // before, between, after
					e.Take(fmt.Sprintf("%s%s%d", prefix, end, page)).Release()
				}
			}
		}
		for _, c := range claims {
			e.Equal(1, count[c.Req.Name], "%q is there all the time", c.Req.Name)
		}
	}},
	{Name: "Trap_T25_PrefixIsNoPattern", Run: func(e *suite.Env) {
		lister, prefix, _ := takeNames(e, 0)
		names := []string{prefix + "ab", prefix + "aB", prefix + "a%b", prefix + "a_b", prefix + "a*b", prefix + "a?b", prefix + `a\b`, prefix + "a[b]", prefix + "a'b", prefix + "é", prefix + "\U0010ffff"}
		for _, name := range names {
			e.Take(name)
		}
		for _, name := range names {
			e.Equal([]string{name}, namesOf(e.List(lister, abstractions.ListRequest{Prefix: name})), "prefix %q", name)
		}
		for _, pattern := range []string{"%", "_", "*", "?", "a%%", "a__", "[a]", `\`, "A", "."} {
			e.Empty(e.List(lister, abstractions.ListRequest{Prefix: prefix + pattern}), "prefix %q", pattern)
		}
	}},
}

func namesOf(records []abstractions.Record) []string {
	names := make([]string, len(records))
	for i, record := range records {
		names[i] = record.Name
	}
	slices.Sort(names)
	return names
}

// takeNames acquires n names with a common prefix.
func takeNames(e *suite.Env, n int) (lister abstractions.Lister, prefix string, claims []*suite.Claim) {
	lister = suite.Ability[abstractions.Lister](e, e.Peer)
	prefix = e.Name() + "/"
	for i := range n {
		claims = append(claims, e.Take(fmt.Sprintf("%s%02d", prefix, i)))
	}
	return lister, prefix, claims
}

func namesOfClaims(claims []*suite.Claim) []string {
	names := make([]string, len(claims))
	for i, c := range claims {
		names[i] = c.Req.Name
	}
	return names
}
