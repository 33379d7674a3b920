package torture

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
)

//go:embed timeline.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("timeline").Parse(pageText))

// page is what the template draws.
type page struct {
	Title    string
	OK       bool
	Verdict  string
	Facts    [][2]string
	Command  string
	Findings []finding
	More     int    // violations that are not listed
	CloseUp  *chart // of the first violation, if that shows more
	Chart    *chart
	Legend   *legend
}

// finding is a violation with its place in the chart.
type finding struct {
	Number int
	Violation
	When string
	Mark int // the number of its mark in the chart
}

// listed is how many violations the page lists and marks.
const listed = 100

// WriteHTML writes the report as a page that needs nothing else: what came out,
// and a timeline of the names with their holders and the faults.
func (r *Report) WriteHTML(w io.Writer) error {
	p := page{
		Title: fmt.Sprintf("%s under %s", r.Provider, r.planName()), OK: r.OK(), Verdict: r.Verdict(),
		Facts: r.facts(), Command: r.Command, More: max(0, len(r.Violations)-listed),
	}
	for i, v := range r.Violations[:min(len(r.Violations), listed)] {
		p.Findings = append(p.Findings, finding{Number: i + 1, Violation: v, When: seconds(v.At)})
	}
	p.Chart, p.CloseUp = newChart(r.History, p.Findings), closeUp(r.History, p.Findings)
	p.Legend = newLegend(r.History, p.Chart)
	for _, m := range p.Chart.Marks {
		for _, number := range m.Numbers {
			p.Findings[number-1].Mark = m.First()
		}
	}
	return pageTemplate.Execute(w, p)
}

// facts are the lines of the text report.
func (r *Report) facts() (facts [][2]string) {
	r.lines(func(what, format string, args ...any) {
		facts = append(facts, [2]string{what, fmt.Sprintf(format, args...)})
	})
	return facts
}
