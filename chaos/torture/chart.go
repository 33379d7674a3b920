package torture

import (
	"fmt"
	"slices"
	"time"
	"unicode/utf8"
)

// chart is the timeline in pixels.
type chart struct {
	span           // what it shows
	plot   float64 // its width
	Whole  bool    // the run, not a part of it
	Width  int     // of the drawing, without the labels
	Height int
	Left   int // width of the labels
	Top    int // of the rows
	Bottom int
	Dense  bool

	Ticks  []tick
	Rows   []row
	Faults []faultBar // all names' faults, at the top
	Cuts   []cut      // times in which workers were cut off
	Bands  []band     // disturbances
	Marks  []mark     // of violations
	Ends   []tick     // of the faults, and of all
	Most   int        // faults in the highest bar
	Bin    string     // width of a bar in time
	Unused int        // names that have no row
}

// span is a time from and to.
type span struct{ from, to time.Duration }

func (s span) touches(other span) bool { return s.from <= other.to && other.from <= s.to }

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
	Holds      []bar
	Shared     []stretch // of two holders
	Lost       string    // path of the marks of losses
	Left       string    // path of the marks of leases left behind
	Faults     []path
	Free       float64 // 0 if it did not become free
}

// Middle is the height of the name.
func (r row) Middle() int { return r.Bar + r.Thick/2 }

type bar struct {
	stretch
	Y, Height float64
	Color     string
	Text      string // in the bar, if there is room
	Title     string
	Still     []stretch // the holder's process stood still
}

// Middle is the height of the text and of the marks at the end.
func (b bar) Middle() float64 { return b.Y + b.Height/2 }

type stretch struct{ X, Width float64 }

type path struct{ Color, D string }

// Measures in pixels.
const (
	histogram = 46 // height of the faults at the top
	axis      = 22
	lane      = 16 // of the text of a disturbance
	margin    = 70 // for a text at the right end
)

// newChart lays a history out.
func newChart(h *History, findings []finding) *chart {
	names, unused := usedNames(h, findings)
	end := max(h.end(), time.Millisecond)
	for _, f := range findings { // a leak is one when the time for it to end is over
		end = max(end, f.At)
	}
	c := &chart{Whole: true, Unused: unused, span: span{0, end}, plot: min(max(end.Seconds()*60, 1150), 7200)}
	c.Top = axis + 12
	if slices.ContainsFunc(h.Faults, Fault.injected) {
		c.Top += histogram
		c.faults(h)
		c.cuts(h)
	}
	c.draw(h, findings, names)
	return c
}

// closeUp shows the first violation of a name, and what happened to it a TTL before
// and after. It is nil if there is none, or if the whole run shows as much.
func closeUp(h *History, findings []finding) *chart {
	i := slices.IndexFunc(findings, func(f finding) bool { return f.Name != "" })
	if i < 0 || h.end() < 4*h.TTL || h.TTL == 0 {
		return nil
	}
	name, at := findings[i].Name, findings[i].At
	c := &chart{Top: axis + 12, span: span{max(0, at-h.TTL), at + h.TTL}, plot: 1150 + margin}
	near := slices.DeleteFunc(slices.Clone(findings), func(f finding) bool { return f.Name != name || !c.touches(span{f.At, f.At}) })
	c.draw(h.near(name, c.span), near, []string{name})
	return c
}

// near is what happened to a name in a while.
func (h *History) near(name string, while span) *History {
	part := &History{TTL: h.TTL, Stops: h.Stops, FaultsEnd: h.FaultsEnd, Closed: h.Closed, Operations: h.Operations}
	for _, t := range h.Holds {
		if t.Name == name && while.touches(span{t.From, t.trusted()}) {
			part.Holds = append(part.Holds, t)
		}
	}
	for _, f := range h.Faults {
		if (f.Name == name || !f.injected()) && while.touches(span{f.At, max(f.At, f.Until)}) {
			part.Faults = append(part.Faults, f)
		}
	}
	for _, f := range h.Free {
		if f.Name == name && f.At <= while.to {
			part.Free = append(part.Free, f)
		}
	}
	return part
}

// usedNames are those with which something happened, and how many others there are.
func usedNames(h *History, findings []finding) (names []string, unused int) {
	used := map[string]bool{}
	for _, o := range h.Operations {
		used[o.Name] = true
	}
	for _, t := range h.Holds {
		used[t.Name] = true
	}
	for _, f := range findings {
		used[f.Name] = true
	}
	all := h.names()
	names = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !used[name] })
	return names, len(all) - len(names)
}

// draw lays out all but the faults at the top.
func (c *chart) draw(h *History, findings []finding, names []string) {
	c.Dense = len(names) > 40
	c.Width = int(c.edge())
	c.disturbances(h)
	c.rows(h, names)
	for _, name := range names {
		c.Left = max(c.Left, 12+7*utf8.RuneCountInString(name))
	}
	c.Left = max(c.Left, 90)
	c.Height = c.Bottom + axis
	c.ticks()
	c.marks(findings, names)
	for _, end := range []struct {
		at   time.Duration
		text string
	}{{h.FaultsEnd, "faults off"}, {h.Closed, "all closed"}} {
		if c.Whole || end.at > c.from && end.at < c.to {
			c.Ends = append(c.Ends, tick{c.x(end.at), end.text})
		}
	}
}

// x is where a time is; one that the chart does not show is just beyond its edge.
func (c *chart) x(t time.Duration) float64 {
	x := (t - c.from).Seconds() / (c.to - c.from).Seconds() * c.plot
	return round(min(max(x, -5), c.edge()+5))
}

// edge is where the drawing ends.
func (c *chart) edge() float64 {
	if c.Whole {
		return c.plot + margin
	}
	return c.plot
}

// stretch is at least as wide as can be seen.
func (c *chart) stretch(s span, least float64) stretch {
	x := c.x(s.from)
	return stretch{x, max(round(c.x(s.to)-x), least)}
}

// round keeps the page small.
func round(x float64) float64 { return float64(int(x*10+0.5)) / 10 }

// ticks are at 1, 2 or 5 times a power of ten seconds, some 90 pixels apart.
func (c *chart) ticks() {
	step := time.Millisecond
	for factor := 0; c.x(c.from+step) < 70; factor++ {
		step = step * []time.Duration{2, 5, 4}[factor%3] / []time.Duration{1, 2, 2}[factor%3]
	}
	for t := (c.from + step - 1).Truncate(step); t <= c.to; t += step {
		c.Ticks = append(c.Ticks, tick{c.x(t), fmt.Sprintf("%gs", t.Seconds())})
	}
}

// rows lays the names out: thick bars for a few, thin ones for many.
func (c *chart) rows(h *History, names []string) {
	height, bar, thick, every := 50, 26, 20, 1
	switch {
	case !c.Whole:
		height, bar, thick = 82, 26, 52
	case c.Dense:
		height, bar, thick, every = 8, 1, 6, 10
	case len(names) > 12:
		height, bar, thick = 28, 12, 13
	}
	holds := byName(h.Holds, func(t Hold) string { return t.Name })
	faults := byName(h.Faults, func(f Fault) string { return f.Name })
	breaks := immediateBreaks(h)
	free := map[string]time.Duration{}
	for _, f := range h.Free {
		free[f.Name] = f.At
	}
	for i, name := range names {
		y := c.Top + i*height
		r := row{Y: y, Height: height, Bar: y + bar, Thick: thick, Name: name, Label: i%every == 0, Shade: i/every%2 == 1}
		if free[name] > 0 {
			r.Free = c.x(free[name])
		}
		c.holds(&r, h, holds[name])
		for _, s := range sharedTimes(holds[name], breaks[name]) {
			r.Shared = append(r.Shared, c.stretch(s, 2))
		}
		if !c.Dense {
			c.faultTicks(&r, faults[name])
		}
		c.Rows = append(c.Rows, r)
	}
	c.Bottom = c.Top + len(names)*height
}

// holds draws the leases of a name: as wide as they were trusted, with a mark at
// an end that was not the holder's will.
func (c *chart) holds(r *row, h *History, holds []Hold) {
	places := lanes(trusts(holds))
	for i, t := range holds {
		end := max(t.trusted(), t.From)
		b := bar{stretch: c.stretch(span{t.From, end}, 0.6), Color: workerColor(t.Worker), Title: t.describe(h)}
		b.Height = round(float64(r.Thick) / float64(places[i].of))
		b.Y = round(float64(r.Bar) + float64(places[i].lane)*b.Height)
		if text := fmt.Sprint("w", t.Worker); b.Height > 5.9 && !c.Dense && b.Width > 6+8*float64(len(text)) {
			b.Text = text
		}
		for _, s := range h.Stops {
			if s.Worker == t.Worker && s.From < end && s.To > t.From {
				b.Still = append(b.Still, c.stretch(span{max(s.From, t.From), min(s.To, end)}, 1))
				b.Title += fmt.Sprintf("; its process stood still from %s until %s", seconds(s.From), seconds(s.To))
			}
		}
		r.ending(b, c.x(end), t.Ending)
		r.Holds = append(r.Holds, b)
	}
}

func (r *row) ending(b bar, x float64, how Ending) {
	size := min(b.Height, 8)
	top := b.Middle() - size/2
	switch how {
	case EndingLost: // a cross
		r.Lost += fmt.Sprintf("M%g %gl%g %gm0 %gl%g %g", round(x-size/2), top, size, size, -size, -size, size)
	case EndingAbandoned, EndingKilled: // an open end
		r.Left += fmt.Sprintf("M%g %gl%g %gl%g %g", x, top, size/2, size/2, -size/2, size/2)
	}
}

func (t Hold) describe(h *History) string {
	text := fmt.Sprintf("worker %d, claim %s, token %d: trusted from %s until %s, %s", t.Worker, t.Claim, t.Token, seconds(t.From), seconds(t.trusted()), t.Ending)
	if t.Reason != "" {
		text += " (" + string(t.Reason) + ")"
	}
	if late, ok := h.late(t); ok {
		text += fmt.Sprintf(", told %v after the end of trust", short(late))
	}
	return text
}
