package torture

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestChartGivesOverlappingLeasesLanesOfTheirOwn(t *testing.T) {
	for _, test := range []struct {
		what  string
		spans []span
		want  []place
	}{
		{"nothing", nil, []place{}},
		{"a hand-over", []span{{0, 2}, {2, 4}}, []place{{0, 1}, {0, 1}}},
		{"two at once", []span{{0, 3}, {2, 4}, {4, 5}}, []place{{0, 2}, {1, 2}, {0, 1}}},
		{"in any order", []span{{4, 5}, {2, 4}, {0, 3}}, []place{{0, 1}, {1, 2}, {0, 2}}},
		{"a lane is used again", []span{{0, 3}, {1, 9}, {3, 5}}, []place{{0, 2}, {1, 2}, {0, 2}}},
		{"three at once", []span{{0, 9}, {1, 9}, {2, 3}}, []place{{0, 3}, {1, 3}, {2, 3}}},
		{"trusted for no time", []span{{0, 2}, {2, 1}, {2, 4}}, []place{{0, 1}, {0, 1}, {0, 1}}},
	} {
		require.Equal(t, test.want, lanes(test.spans), test.what)
	}
}

func TestChartFindsTheTimeOfTwoHolders(t *testing.T) {
	first := Hold{Worker: 1, From: 1, Until: 10}
	second := Hold{Worker: 2, From: 6, Until: 20, End: 15}
	third := Hold{Worker: 3, From: 15, Until: 18}
	require.Equal(t, []span{{6, 10}}, sharedTimes([]Hold{second, third, first}, nil))
	require.Empty(t, sharedTimes([]Hold{first, second}, []Operation{{Call: 4, Return: 5}}), "an operator has broken the first lease")
	inside := Hold{Worker: 4, From: 7, Until: 8}
	require.Equal(t, []span{{6, 10}}, sharedTimes([]Hold{first, second, inside}, nil), "three at once are drawn once")
}

func TestChartMergesMarksThatTouch(t *testing.T) {
	at := func(x float64, number int) mark {
		return mark{stretch: stretch{X: x}, Numbers: []int{number}, Texts: []string{fmt.Sprint(number)}}
	}
	merged := merge([]mark{at(10, 5), at(12, 7), at(11, 6), at(300, 8)})
	require.Len(t, merged, 2)
	require.Equal(t, "5-7", merged[0].Label())
	require.Equal(t, stretch{10, 2}, merged[0].stretch)
	require.Equal(t, "5\n6\n7", merged[0].Title())
	require.Equal(t, []int{8}, merged[1].Numbers)
	require.Empty(t, merge(nil))
}

func TestChartListsNumbersShort(t *testing.T) {
	require.Equal(t, "1-3, 5, 6, 9", ranges([]int{1, 2, 3, 5, 6, 9}))
	require.Empty(t, ranges(nil))
	many := mark{Numbers: []int{1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21}}
	require.Equal(t, "1, 3, 5, 7, 9, 11, 13, …", many.Label())
}

func TestChartTellsWindowsApart(t *testing.T) {
	hits := []Fault{{At: 1, Worker: 3}, {At: 2, Worker: 1}, {At: 9, Worker: 2}}
	require.Equal(t, [][]Fault{hits[:2], hits[2:]}, windows(hits, 3))
	require.Equal(t, "workers 1, 3", workersOf(hits[:2]))
	require.Equal(t, "worker 2", workersOf(hits[2:]))
}

func TestChartGivesEachKindOfFaultAColor(t *testing.T) {
	seen := map[string]string{}
	for _, k := range kinds {
		require.Empty(t, seen[k.color], k.kind)
		seen[k.color] = k.kind
	}
}

// twice is a run of a minute in which two held a name at once.
func twice() *Report {
	s := time.Second
	return &Report{
		Violations: []Violation{{Check: CheckOverlap, Name: "<b>", At: 42 * s, Text: "<i>"}},
		History: &History{
			TTL: 2 * s, FaultsEnd: 60 * s, Closed: 60 * s,
			Holds: []Hold{
				{Worker: 13, Name: "<b>", Claim: "13.1", Token: 7, From: 41 * s, Until: 43 * s, Ending: EndingLost},
				{Worker: 2, Name: "<b>", Claim: "2.1", Token: 8, From: 42 * s, Until: 44 * s, Ending: EndingKilled},
			},
			Stops:  []Stop{{Worker: 2, From: 43 * s, To: 50 * s}},
			Faults: []Fault{{At: 43 * s, Until: 50 * s, Worker: -1, Kind: "worker 2 stopped", Rule: "process"}},
			Free:   []FreeAt{{Name: "<b>", At: 60 * s}, {Name: "idle", At: 60 * s}},
		},
	}
}

func TestChartShowsTheFirstViolationFromNear(t *testing.T) {
	r := twice()
	near := closeUp(r.History, []finding{{Number: 1, Violation: r.Violations[0]}})
	require.Equal(t, span{40 * time.Second, 44 * time.Second}, near.span)
	require.Len(t, near.Rows, 1)
	row := near.Rows[0]
	require.Len(t, row.Holds, 2)
	require.Less(t, row.Holds[0].Y, row.Holds[1].Y)
	require.Len(t, row.Shared, 1)
	require.InDelta(t, near.plot/4, row.Shared[0].Width, 0.2)
	require.Empty(t, row.Holds[0].Still)
	require.Len(t, row.Holds[1].Still, 1, "only the bars of the worker that stood still")
	require.Nil(t, closeUp(r.History, nil))
}

func TestTimelineTellsAllAndEscapesIt(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, twice().WriteHTML(&page))
	html := page.String()
	require.Contains(t, html, "&lt;b&gt;, worker 13, claim 13.1, token 7: trusted from 41.000s until 43.000s, lost")
	require.Contains(t, html, "its process stood still from 43.000s until 50.000s")
	require.Contains(t, html, "1 more name has no row")
	require.Contains(t, html, "two holders at once")
	require.NotContains(t, html, "at most", "no row of faults without faults")
	require.NotContains(t, html, "<b><a")
	require.NotContains(t, html, "<i><")
	require.NotContains(t, html, "ZgotmplZ")
}
