package report

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	"github.com/distributedleasing/leasing/chaos/torture/internal/run"
)

func TestChartGivesEachKindOfFaultAColor(t *testing.T) {
	seen := map[swatch]bool{}
	for _, k := range kinds {
		color := swatch{Color: k.Color}
		require.False(t, seen[color], k.Text)
		seen[color] = true
	}
}

func TestChartGivesNeighboursColorsOfTheirOwn(t *testing.T) {
	seen := map[any]int{}
	for i := range 60 {
		color := workerColor(i)
		_, again := seen[color]
		require.False(t, again, "workers %d and %d", seen[color], i)
		seen[color] = i
	}
}

func TestChartHasItsTicksApart(t *testing.T) {
	for _, length := range []time.Duration{time.Millisecond, time.Second, 17 * time.Second, 2 * time.Minute, time.Hour} {
		c := newChart("", new(history.History), nil, nil, 0, length)
		require.NotEmpty(t, c.Ticks, length)
		require.Equal(t, "0s", c.Ticks[0].Text)
		for i, tick := range c.Ticks[1:] {
			require.Greater(t, (tick.Left-c.Ticks[i].Left)/100*float64(c.Width), 80.)
		}
	}
}

// twice returns the report of a one-minute run in which two claims held a name at once.
func twice() *Report {
	s := time.Second
	return &Report{
		Violations: []history.Violation{{Check: history.CheckOverlap, Name: "<b>", At: 42 * s, Text: "<i>"}},
		record: run.Record{History: &history.History{
			TTL: 2 * s, FaultsEnd: 60 * s, Closed: 60 * s,
			Holds: []history.Hold{
				{Worker: 13, Name: "<b>", Claim: "13.1", Token: 7, From: 41 * s, Until: 43 * s, Ending: history.EndingLost},
				{Worker: 2, Name: "<b>", Claim: "2.1", Token: 8, From: 42 * s, Until: 44 * s, Ending: history.EndingKilled},
			},
			Stops:  []history.Stop{{Worker: 2, From: 43 * s, To: 50 * s}},
			Faults: []history.Fault{{At: 43 * s, Until: 50 * s, Worker: -1, Kind: "worker 2 stopped", Rule: "process"}},
			Free:   []history.FreeAt{{Name: "<b>", At: 60 * s}, {Name: "idle", At: 60 * s}},
		}},
	}
}

func TestChartShowsTheFirstViolationFromNear(t *testing.T) {
	r := twice()
	near := closeUp(r.record.History, r.Violations, time.Minute)
	require.Equal(t, 40*time.Second, near.from)
	require.Equal(t, 44*time.Second, near.to)
	require.Len(t, near.Rows, 2, "of the name, and of what concerns none")
	classes := map[string][]bar{}
	for _, b := range near.Rows[1].Bars {
		classes[b.Class] = append(classes[b.Class], b)
	}
	first, second := classes["hold lost"], classes["hold killed"]
	require.Len(t, first, 1)
	require.Len(t, second, 1)
	require.Less(t, second[0].Left, first[0].Left+first[0].Width, "both at once")
	require.InDelta(t, 50, second[0].Left, 0.1)
	require.Len(t, classes["still"], 1, "only the bars of the worker that stood still")
	require.InDelta(t, 75, classes["still"][0].Left, 0.1)
	require.Len(t, classes["violation"], 1)
	require.Nil(t, closeUp(r.record.History, nil, time.Minute))
	require.Nil(t, closeUp(r.record.History, r.Violations, 7*time.Second), "the whole is as near")
}

func TestTimelineTellsAllAndEscapesIt(t *testing.T) {
	var page bytes.Buffer
	require.NoError(t, twice().WriteHTML(&page))
	html := page.String()
	require.Contains(t, html, "&lt;b&gt;, worker 13, claim 13.1, token 7: trusted from 41.000s until 43.000s, lost")
	require.Contains(t, html, "its process stood still")
	require.Contains(t, html, "worker 2 stopped")
	require.NotContains(t, html, "<b><a")
	require.NotContains(t, html, "<i><")
	require.NotContains(t, html, "ZgotmplZ")
}
