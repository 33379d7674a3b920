package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"math"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

//go:embed timeline.html.tmpl
var pageText string

var pageTemplate = template.Must(template.New("timeline").Funcs(template.FuncMap{
	"seconds": history.Seconds, "number": func(i int) int { return i + 1 },
}).Parse(pageText))

type page struct {
	*Report
	Title    string
	Facts    [][2]string         // the lines of the text report
	Listed   []history.Violation // the first violations
	Whole    chart
	Near     *chart // around the first violation of a name; nil if there is none
	Workers  []swatch
	Kinds    []swatch // all kinds of faults
	Unlisted int      // the number of violations that are not in Listed
}

type swatch struct {
	Color template.CSS
	Text  string
}

// chart is the timeline of a part of the run.
type chart struct {
	from, to time.Duration
	Dense    bool
	Width    int // in pixels
	Ticks    []bar
	Rows     []row
}

// row has the bars of a name. The first row has the events that concern no name.
type row struct {
	Name string
	Bars []bar
}

// bar is an item of the timeline. Class is its CSS class.
type bar struct {
	Left, Width  float64 // in percent of the chart
	Class        string
	Color        template.CSS
	Text, Title  string
	ID, Violated string // the IDs of a violation's mark and of its line in the list
}

// listed is the highest number of violations that the page lists and marks.
const listed = 100

// WriteHTML writes the report as a self-contained page: the results,
// and a timeline of the names with their holders and the faults.
func (r *Report) WriteHTML(w io.Writer) error {
	h := r.record.History
	p := page{Report: r, Title: fmt.Sprintf("%s under %s", r.Provider, r.planName()), Unlisted: max(0, len(r.Violations)-listed)}
	p.Listed = r.Violations[:len(r.Violations)-p.Unlisted]
	r.lines(func(what, format string, args ...any) {
		p.Facts = append(p.Facts, [2]string{what, fmt.Sprintf(format, args...)})
	})

	end := max(h.End(), time.Millisecond)
	for _, f := range p.Listed { // a leak is reported at its time limit, after the history's end
		end = max(end, f.At)
	}
	p.Whole = newChart("mark", h, p.Listed, h.Names(), 0, end)
	p.Near = closeUp(h, p.Listed, end)
	p.Workers, p.Kinds = swatches(h), kinds
	return pageTemplate.Execute(w, p)
}

// closeUp returns a chart of the first violation of a name, from one TTL before to one TTL
// after the violation. It returns nil if there is no such violation, or if the run is short.
func closeUp(h *history.History, findings []history.Violation, end time.Duration) *chart {
	i := slices.IndexFunc(findings, func(f history.Violation) bool { return f.Name != "" })
	if i < 0 || h.TTL == 0 || end < 4*h.TTL {
		return nil
	}
	f := findings[i]
	c := newChart("near", h, findings, []string{f.Name}, max(0, f.At-h.TTL), f.At+h.TTL)
	return &c
}

// newChart returns the chart of some names between two times. The marks' IDs begin with prefix.
func newChart(prefix string, h *history.History, findings []history.Violation, names []string, from, to time.Duration) chart {
	c := chart{Dense: len(names) > 40, from: from, to: to, Width: int(min(max((to-from).Seconds()*60, 1150), 7200))}
	rows := map[string]*row{}
	for _, name := range append([]string{""}, names...) {
		rows[name] = &row{Name: name}
	}
	add := func(name string, from, to time.Duration, b bar) {
		if r := rows[name]; r != nil && from <= c.to && to >= c.from {
			b.Left, b.Width = c.percent(from-c.from), c.percent(to-from)
			r.Bars = append(r.Bars, b)
		}
	}
	for _, t := range h.Holds {
		end := max(t.Trusted(), t.From)
		b := bar{Class: "hold " + string(t.Ending), Color: workerColor(t.Worker), Text: fmt.Sprint("w", t.Worker), Title: describe(h, t)}
		add(t.Name, t.From, end, b)
		for _, s := range h.Stops {
			if s.Worker == t.Worker && s.From < end && s.To > t.From {
				add(t.Name, max(s.From, t.From), min(s.To, end), bar{Class: "still", Title: "its process stood still"})
			}
		}
	}
	for _, f := range h.Faults {
		if f.Injected() {
			title := fmt.Sprintf("%s, %s: %s of worker %d at %s", f.Rule, f.Kind, f.Verb, f.Worker, history.Seconds(f.At))
			add(f.Name, f.At, f.At, bar{Class: "fault", Color: kindOf(f.Kind).Color, Title: title})
		} else {
			add("", f.At, max(f.At, f.Until), bar{Class: "disturbance", Text: f.Kind, Title: f.Kind})
		}
	}
	for _, f := range h.Free {
		if f.At > 0 {
			add(f.Name, f.At, f.At, bar{Class: "free", Title: "free again at " + history.Seconds(f.At)})
		}
	}
	add("", h.FaultsEnd, h.FaultsEnd, bar{Class: "disturbance", Text: "faults off", Title: "faults off"})
	add("", h.Closed, h.Closed, bar{Class: "disturbance", Text: "all closed", Title: "all closed"})
	for i, f := range findings {
		number := fmt.Sprint(i + 1)
		add(f.Name, f.At, f.At, bar{Class: "violation", Text: number, Title: f.String(), ID: prefix + number, Violated: "v" + number})
	}
	for _, name := range append([]string{""}, names...) {
		c.Rows = append(c.Rows, *rows[name])
	}
	c.ticks()
	return c
}

// percent returns a duration as a percentage of the chart's duration, precise to less than a pixel.
func (c *chart) percent(d time.Duration) float64 {
	return math.Round(float64(d)/float64(c.to-c.from)*1e5) / 1e3
}

// ticks adds ticks at multiples of 1, 2 or 5 times a power of ten, at least 90 pixels apart.
func (c *chart) ticks() {
	step, least := time.Millisecond, (c.to-c.from)*90/time.Duration(c.Width)
	for factor := 0; step < least; factor++ {
		step = step * []time.Duration{2, 5, 2}[factor%3] / []time.Duration{1, 2, 1}[factor%3]
	}
	for t := (c.from + step - 1).Truncate(step); t <= c.to; t += step {
		c.Ticks = append(c.Ticks, bar{Left: c.percent(t - c.from), Text: fmt.Sprintf("%gs", t.Seconds())})
	}
}

func describe(h *history.History, t history.Hold) string {
	text := fmt.Sprintf("%s, worker %d, claim %s, token %d: trusted from %s until %s, %s",
		t.Name, t.Worker, t.Claim, t.Token, history.Seconds(t.From), history.Seconds(t.Trusted()), t.Ending)
	if t.Reason != "" {
		text += " (" + string(t.Reason) + ")"
	}
	if late, ok := h.Late(t); ok {
		text += fmt.Sprintf(", noticed %v after the end of trust", short(late))
	}
	return text
}

// workerColor steps around the color circle by the golden angle, so that neighbours differ.
func workerColor(i int) template.CSS {
	return template.CSS(fmt.Sprintf("hsl(%d 60%% 72%%)", i*222%360))
}

// kinds are the kinds of faults in the order of the legend. The colors are readable on white,
// and readers with red-green color blindness can tell them apart.
var kinds = []swatch{
	{"#b4b4b4", string(chaos.FaultDelay)}, {"#6b6b6b", string(chaos.FaultHang)}, {"#faab01", string(chaos.FaultThrottle)},
	{"#cb5500", string(chaos.FaultError)}, {"#6c350d", string(chaos.FaultRequestLost)}, {"#a83dff", string(chaos.FaultReplyLost)},
	{"#0037a8", string(chaos.FaultDeliveredLate)}, {"#3578c3", string(chaos.FaultAppliedTwice)}, {"#5ac771", string(chaos.FaultStaleRead)},
	{"#00caf3", string(chaos.FaultWakeupsLost)}, {"#111111", string(chaos.FaultPartitioned)}, {"#76156e", string(chaos.FaultBroken)},
}

// kindOf returns the swatch of a kind, or a default swatch for a kind that is not in kinds.
func kindOf(kind string) swatch {
	if i := slices.IndexFunc(kinds, func(k swatch) bool { return k.Text == kind }); i >= 0 {
		return kinds[i]
	}
	return swatch{"#cb5500", kind}
}

// swatches returns the colors of the workers that held a lease.
func swatches(h *history.History) (workers []swatch) {
	var held []int
	for _, t := range h.Holds {
		held = append(held, t.Worker)
	}
	slices.Sort(held)
	for _, i := range slices.Compact(held) {
		workers = append(workers, swatch{workerColor(i), fmt.Sprint("worker ", i)})
	}
	return workers
}
