package torture_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/broken"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	"github.com/distributedleasing/leasing/chaos/torture/internal/report"
	"github.com/distributedleasing/leasing/chaos/torture/internal/run"
)

// runUnder returns the report of a short run under a plan.
func runUnder(t *testing.T, name string, options torture.Options) *torture.Report {
	t.Helper()
	plan, err := chaos.Named(name, 3)
	require.NoError(t, err)
	options.Plan, options.Seed, options.Repeatable = plan, 3, true
	return virtual(t, options, nil)
}

func failed(t *testing.T) *torture.Report {
	t.Helper()
	for _, defect := range broken.All() {
		if defect.Trap == "T24" {
			options := short(defect, 1)
			options.Command = "make it so"
			return virtual(t, options, defect.Wrap)
		}
	}
	require.FailNow(t, "no such defect")
	return nil
}

func TestReportReadsAsText(t *testing.T) {
	report := runUnder(t, "flaky-network", torture.Options{For: minute / 2})
	text := report.String()
	for _, want := range []string{"memory, TTL 2s", "flaky-network, seed 3", "8 workers, 4 names, 30s", "request lost", "no violation"} {
		require.Contains(t, text, want)
	}
	require.NotContains(t, text, "again:")
	bad := failed(t)
	require.Contains(t, bad.String(), "FAILED")
	require.Contains(t, bad.String(), "and ")
	require.Contains(t, bad.String(), "again: make it so")
}

func page(t *testing.T, r *torture.Report) string {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, r.WriteHTML(&text))
	return text.String()
}

// wholeTimeline returns the chart of the whole run, which may follow a close-up.
func wholeTimeline(t *testing.T, html string) string {
	t.Helper()
	_, chart, found := strings.Cut(html, `<h2 id="whole">`)
	require.True(t, found)
	require.Equal(t, strings.Count(chart, "<div"), strings.Count(chart, "</div>"))
	return chart
}

func TestTimelineShowsEachLeaseAndNeedsNothingElse(t *testing.T) {
	report := runUnder(t, "steal-lease", torture.Options{For: minute / 2, Names: 3})
	html := page(t, report)
	require.Equal(t, report.Grants, strings.Count(wholeTimeline(t, html), ": trusted from"))
	require.Equal(t, len(recordOf(t, report).History.Faults), strings.Count(wholeTimeline(t, html), "stolen, broken:"))
	require.NotContains(t, html, "src=")
	require.NotContains(t, html, "href=\"http")
	require.NotContains(t, html, "<script")
	require.NotContains(t, html, "ZgotmplZ", "what html/template refuses to write")
	for i := range 3 {
		require.Contains(t, html, fmt.Sprintf(">torture/run/%d</div>", i+1))
	}
}

func TestTimelineOfManyNamesIsDense(t *testing.T) {
	report := runUnder(t, "total-outage", torture.Options{For: 5 * time.Second, Names: 300, Workers: 60})
	html := page(t, report)
	require.Equal(t, 300, strings.Count(wholeTimeline(t, html), `<div class="name">torture/run/`))
	require.Contains(t, html, `class="chart dense"`)
}

func TestTimelineMarksViolationsAndDisturbances(t *testing.T) {
	bad := failed(t)
	html := page(t, bad)
	require.Contains(t, html, "make it so")
	for i := range min(100, len(bad.Violations)) {
		require.Contains(t, html, fmt.Sprintf(`<li id="v%d">`, i+1))
		require.Contains(t, html, fmt.Sprintf(`<a href="#mark%d">`, i+1), "from the list to the mark")
		require.Equal(t, 1, strings.Count(html, fmt.Sprintf(`id="mark%d" href="#v%d"`, i+1, i+1)), "and back")
	}
	record := recordOf(t, bad)
	record.History.Faults = append(record.History.Faults,
		history.Fault{Worker: -1, At: time.Second, Until: 2 * time.Second, Kind: "node <1> killed"},
		history.Fault{Worker: -1, At: time.Second + 1, Kind: "node 2 killed"})
	chart := wholeTimeline(t, page(t, report.Of(record)))
	require.Contains(t, chart, "node &lt;1&gt; killed")
	require.Contains(t, chart, "node 2 killed")
}

func TestTimelineOfNothing(t *testing.T) {
	wholeTimeline(t, page(t, report.Of(run.Record{History: new(history.History)})))
}
