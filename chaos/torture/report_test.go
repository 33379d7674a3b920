package torture_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/broken"
	"github.com/distributedleasing/leasing/chaos/torture"
)

// under is the report of a run of the short form.
func under(t *testing.T, name string, options torture.Options) *torture.Report {
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
	report := under(t, "flaky-network", torture.Options{For: minute / 2})
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

func TestReportIsReadBackFromJSON(t *testing.T) {
	report := under(t, "partition", torture.Options{For: minute / 2})
	var text bytes.Buffer
	require.NoError(t, report.WriteJSON(&text))
	again, err := torture.ReadJSON(bytes.NewReader(text.Bytes()))
	require.NoError(t, err)
	var once, twice bytes.Buffer
	require.NoError(t, report.WriteHTML(&once))
	require.NoError(t, again.WriteHTML(&twice))
	require.Equal(t, once.String(), twice.String())
	_, err = torture.ReadJSON(strings.NewReader("{"))
	require.Error(t, err)
}

func page(t *testing.T, r *torture.Report) string {
	t.Helper()
	var text bytes.Buffer
	require.NoError(t, r.WriteHTML(&text))
	return text.String()
}

// drawing is the well-formed SVG of the timeline.
func drawing(t *testing.T, html string) string {
	t.Helper()
	begin := strings.LastIndex(html, `<div class="scroll">`) // a close-up may come before
	require.Positive(t, begin)
	svg := html[begin:]
	svg = svg[strings.Index(svg, "<svg"):]
	svg = svg[:strings.Index(svg, "</svg>")+len("</svg>")]
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		_, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			return svg
		}
		require.NoError(t, err)
	}
}

func TestTimelineShowsEachLeaseAndNeedsNothingElse(t *testing.T) {
	report := under(t, "steal-lease", torture.Options{For: minute / 2, Names: 3})
	html := page(t, report)
	svg := drawing(t, html)
	require.Equal(t, report.Grants, strings.Count(svg, ": trusted from"))
	require.Contains(t, html, "broken: an operator breaks")
	require.NotContains(t, html, "src=")
	require.NotContains(t, html, "href=\"http")
	require.NotContains(t, html, "<script")
	require.NotContains(t, html, "ZgotmplZ", "what html/template refuses to write")
	for i := range 3 {
		require.Contains(t, html, fmt.Sprintf(">torture/run/%d</text>", i+1))
	}
}

func TestTimelineOfManyNamesIsDense(t *testing.T) {
	report := under(t, "total-outage", torture.Options{For: 5 * time.Second, Names: 300, Workers: 60})
	html := page(t, report)
	svg := drawing(t, html)
	labels := regexp.MustCompile(`>torture/run/(\d+)</text>`).FindAllStringSubmatch(html, -1)
	used := map[string]bool{}
	for _, o := range report.History.Operations {
		used[o.Name] = true
	}
	require.Len(t, labels, (len(used)+9)/10, "each tenth row has a label")
	require.Contains(t, html, fmt.Sprintf("%d more names have no rows", 300-len(used)))
	height := regexp.MustCompile(`height="(\d+)"`).FindStringSubmatch(svg)[1]
	require.Len(t, height, 4, "it fits on a page or two")
	require.Contains(t, html, "the colors repeat")
}

func TestTimelineMarksViolationsAndDisturbances(t *testing.T) {
	bad := failed(t)
	html := page(t, bad)
	svg := drawing(t, html)
	require.Contains(t, html, "make it so")
	for i := range min(100, len(bad.Violations)) {
		link := regexp.MustCompile(fmt.Sprintf(`<li id="v%d">.*<a href="#(m\d+)">`, i+1)).FindStringSubmatch(html)
		require.NotNil(t, link, "from the list to the mark")
		require.Equal(t, 1, strings.Count(html, fmt.Sprintf(`id="%s"`, link[1])))
		require.Contains(t, svg, "href=\"#v"+link[1][1:]+`"`, "and back")
	}
	bad.History.Faults = append(bad.History.Faults,
		torture.Fault{Worker: -1, At: time.Second, Until: 2 * time.Second, Kind: "node <1> killed"},
		torture.Fault{Worker: -1, At: time.Second + 1, Kind: "node 2 killed"})
	svg = drawing(t, page(t, bad))
	require.Contains(t, svg, "node &lt;1&gt; killed")
}

func TestTimelineOfNothing(t *testing.T) {
	drawing(t, page(t, &torture.Report{History: &torture.History{}}))
}
