package torture

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// chart is the timeline in pixels.
type chart struct {
	Width, Height int // of the drawing, without the labels
	Left          int // width of the labels
	Top, Bottom   int // of the rows
	Dense         bool

	Ticks    []tick
	Rows     []row
	Faults   []faultBar // all names' faults, at the top
	Bands    []band     // disturbances
	Marks    []mark     // of violations
	Ends     []tick     // of the faults, and of all
	Workers  []swatch   // legend
	Kinds    []swatch   // legend of faults
	Most     int        // faults in the highest bar
	Bin      string     // width of a bar in time
	Repeated int        // the first worker with the color of another; 0 if there is none
}

type tick struct {
	X    float64
	Text string
}

// row is one name.
type row struct {
	Y, Height  int
	Bar, Thick int // y and height of the bars
	Name       string
	Label      bool // there is room for the name
	Shade      bool
	Tenures    []bar
	Lost       string // path of the marks of losses
	Left       string // path of the marks of leases left behind
	Faults     []path
	Free       float64 // 0 if it did not become free
}

type bar struct {
	X, Width float64
	Color    string
	Text     string // in the bar, if there is room
	Title    string
}

type path struct{ Color, D string }

type faultBar struct {
	X, Width, Y, Height float64
	Color               string
}

type band struct {
	X, Width float64
	Text     string
	Y        int
}

type mark struct {
	X      float64
	Y, H   int
	Number int
	Label  bool // there is room for the number
	Text   string
}

type swatch struct{ Color, Text string }

// Measures in pixels.
const (
	histogram = 46 // height of the faults at the top
	axis      = 22
	lane      = 13 // of the text of a disturbance
)

// newChart lays a history out.
func newChart(h *History, findings []finding) *chart {
	names, end := h.names(), max(h.end(), time.Millisecond)
	c := &chart{Dense: len(names) > 40}
	scale := scaleFor(end)
	c.Width = int(scale(end)) + 70
	c.Top = axis + histogram + 12
	c.disturbances(h, scale)
	c.rows(h, names, scale)
	c.Left = 12 + 7*longest(names, func(n string) int { return len(n) })
	c.Height = c.Bottom + axis
	c.Ticks = ticks(end, scale)
	c.faults(h, end, scale)
	c.marks(findings, names, scale)
	c.legend(h)
	c.Ends = []tick{{scale(h.FaultsEnd), "faults off"}, {scale(h.Closed), "all closed"}}
	return c
}

func longest(all []string, length func(string) int) (n int) {
	for _, one := range all {
		n = max(n, length(one))
	}
	return n
}

// scaleFor makes a second as wide as it can be without the page getting endless.
func scaleFor(end time.Duration) func(time.Duration) float64 {
	width := min(max(end.Seconds()*60, 1100), 7200)
	return func(t time.Duration) float64 { return round(t.Seconds() / end.Seconds() * width) }
}

// round keeps the page small.
func round(x float64) float64 { return float64(int(x*10+0.5)) / 10 }

// ticks are at 1, 2 or 5 times a power of ten seconds, some 90 pixels apart.
func ticks(end time.Duration, scale func(time.Duration) float64) (all []tick) {
	step := time.Millisecond
	for factor := 0; scale(step) < 70; factor++ {
		step = step * []time.Duration{2, 5, 4}[factor%3] / []time.Duration{1, 2, 2}[factor%3]
	}
	for t := time.Duration(0); t <= end; t += step {
		all = append(all, tick{scale(t), fmt.Sprintf("%gs", t.Seconds())})
	}
	return all
}

// rows lays the names out: thick bars for a few, thin ones for many.
func (c *chart) rows(h *History, names []string, scale func(time.Duration) float64) {
	height, bar, thick, every := 44, 18, 20, 1
	switch {
	case c.Dense:
		height, bar, thick, every = 7, 1, 5, 10
	case len(names) > 12:
		height, bar, thick = 24, 9, 12
	}
	tenures := byName(h.Tenures, func(t Tenure) string { return t.Name })
	faults := byName(h.Faults, func(f Fault) string { return f.Name })
	free := map[string]time.Duration{}
	for _, f := range h.Free {
		free[f.Name] = f.At
	}
	for i, name := range names {
		y := c.Top + i*height
		r := row{Y: y, Height: height, Bar: y + bar, Thick: thick, Name: name, Label: i%every == 0, Shade: i/every%2 == 1}
		r.Free = scale(free[name])
		for _, t := range tenures[name] {
			r.tenure(t, t.describe(h), scale, c.Dense)
		}
		if !c.Dense {
			r.ticks(faults[name], scale, bar-3)
		}
		c.Rows = append(c.Rows, r)
	}
	c.Bottom = c.Top + len(names)*height
}

// tenure draws a lease: as wide as it was trusted, with a mark at an end that was
// not its holder's will.
func (r *row) tenure(t Tenure, title string, scale func(time.Duration) float64, dense bool) {
	from, to := scale(t.From), scale(max(t.trusted(), t.From))
	b := bar{X: from, Width: max(round(to-from), 0.6), Color: workerColor(t.Worker), Title: title}
	if !dense && b.Width > 26 {
		b.Text = fmt.Sprint("w", t.Worker)
	}
	r.Tenures = append(r.Tenures, b)
	size := min(r.Thick, 8)
	middle := r.Bar + r.Thick/2
	switch t.Ending {
	case WasLost: // a cross
		r.Lost += fmt.Sprintf("M%g %dl%d %dm0 %dl%d %d", round(to-float64(size)/2), middle-size/2, size, size, -size, -size, size)
	case Abandoned, Killed: // an open end
		r.Left += fmt.Sprintf("M%g %dl%d %dl%d %d", round(to), middle-size/2, size/2, size/2, -size/2, size-size/2)
	}
}

func (t Tenure) describe(h *History) string {
	text := fmt.Sprintf("worker %d, claim %s, token %d: trusted from %s until %s, %s", t.Worker, t.Claim, t.Token, seconds(t.From), seconds(t.trusted()), t.Ending)
	if t.Reason != "" {
		text += " (" + string(t.Reason) + ")"
	}
	if late, ok := h.late(t); ok {
		text += fmt.Sprintf(", told %v after the end of trust", short(late))
	}
	return text
}

// ticks draws the faults of a name above its bars.
func (r *row) ticks(faults []Fault, scale func(time.Duration) float64, height int) {
	lines := map[string]*strings.Builder{}
	for _, f := range faults {
		color := kindOf(f.Kind).color
		if lines[color] == nil {
			lines[color] = new(strings.Builder)
		}
		fmt.Fprintf(lines[color], "M%g %dv%d", scale(f.At), r.Bar-height-1, height)
	}
	each(byName(faults, func(f Fault) string { return kindOf(f.Kind).color }), func(color string, _ []Fault) {
		r.Faults = append(r.Faults, path{color, lines[color].String()})
	})
}

// faults draws how many there were of each kind over time.
func (c *chart) faults(h *History, end time.Duration, scale func(time.Duration) float64) {
	const width = 8
	bins := int(scale(end))/width + 1
	counts := make([]map[string]int, bins)
	for _, f := range h.Faults {
		if f.Worker < 0 {
			continue
		}
		bin := min(int(scale(f.At))/width, bins-1)
		if counts[bin] == nil {
			counts[bin] = map[string]int{}
		}
		counts[bin][kindOf(f.Kind).color]++
	}
	for _, bin := range counts {
		c.Most = max(c.Most, total(bin))
	}
	c.Bin = fmt.Sprintf("%.2gs", end.Seconds()*width/scale(end))
	for i, bin := range counts {
		y := float64(axis + histogram)
		for _, color := range kindColors() {
			if n := bin[color]; n > 0 {
				height := round(float64(n) / float64(c.Most) * (histogram - 4))
				y -= height
				c.Faults = append(c.Faults, faultBar{X: float64(i * width), Width: width - 1, Y: round(y), Height: height, Color: color})
			}
		}
	}
}

func total(counts map[string]int) (n int) {
	for _, one := range counts {
		n += one
	}
	return n
}

// disturbances draws what befell servers and processes, over all names. The
// texts take turns in a few lanes, so that near ones can be read.
func (c *chart) disturbances(h *History, scale func(time.Duration) float64) {
	var lanes []float64 // where the last text of each ends
	for _, f := range h.Faults {
		if f.Worker >= 0 {
			continue
		}
		b := band{X: scale(f.At), Width: 1.5, Text: f.Kind}
		if f.Until > f.At {
			b.Width = max(b.Width, round(scale(f.Until)-b.X))
		}
		i := slices.IndexFunc(lanes, func(end float64) bool { return end < b.X })
		if i < 0 {
			i = len(lanes)
			lanes = append(lanes, 0)
		}
		lanes[i] = b.X + 6.2*float64(len(f.Kind)) + 10
		b.Y = axis + histogram + 10 + i*lane
		c.Bands = append(c.Bands, b)
	}
	c.Top += len(lanes) * lane
}

// marks draws the violations: over their name's row, or over all.
func (c *chart) marks(findings []finding, names []string, scale func(time.Duration) float64) {
	labelled := map[string]float64{} // where the last number of each row is
	for _, f := range findings {
		m := mark{X: scale(f.At), Y: c.Top, H: c.Bottom - c.Top, Number: f.Number, Text: f.Violation.String()}
		if i, ok := slices.BinarySearch(names, f.Name); ok {
			m.Y, m.H = c.Rows[i].Y, c.Rows[i].Height
		}
		if at, ok := labelled[f.Name]; !ok || m.X > at+20 {
			labelled[f.Name], m.Label = m.X, true
		}
		c.Marks = append(c.Marks, m)
	}
}

func (c *chart) legend(h *History) {
	workers := map[int]bool{}
	for _, t := range h.Tenures {
		workers[t.Worker] = true
	}
	for i := range workerColors {
		if workers[i] {
			c.Workers = append(c.Workers, swatch{workerColor(i), fmt.Sprint("worker ", i)})
		}
	}
	for i := range workers {
		if i >= len(workerColors) {
			c.Repeated = len(workerColors)
		}
	}
	seen := map[string]bool{}
	for _, f := range h.Faults {
		if f.Worker >= 0 {
			seen[f.Kind] = true
		}
	}
	for _, k := range kinds {
		if seen[k.kind] {
			c.Kinds = append(c.Kinds, swatch{k.color, k.text})
		}
	}
}
