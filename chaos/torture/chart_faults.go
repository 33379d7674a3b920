package torture

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/chaos"
)

// injected says whether it is a fault of the plan, rather than one that befell a
// process or server.
func (f Fault) injected() bool { return f.Worker >= 0 }

type faultBar struct {
	stretch
	Y, Height float64
	Color     string
}

// faults draws how many there were of each kind over time.
func (c *chart) faults(h *History) {
	const width = 8
	bins := make([]map[string]int, int(c.plot)/width+1)
	for _, f := range h.Faults {
		if f.injected() {
			bin := min(int(c.x(f.At))/width, len(bins)-1)
			if bins[bin] == nil {
				bins[bin] = map[string]int{}
			}
			bins[bin][kindOf(f.Kind).color]++
		}
	}
	for _, bin := range bins {
		c.Most = max(c.Most, total(bin))
	}
	c.Bin = fmt.Sprintf("%.2gs", (c.to-c.from).Seconds()*width/c.plot)
	for i, bin := range bins {
		y := float64(axis + histogram)
		for _, k := range kinds { // each color is there once
			if n := bin[k.color]; n > 0 {
				height := round(float64(n) / float64(c.Most) * (histogram - 4))
				y -= height
				c.Faults = append(c.Faults, faultBar{stretch{float64(i * width), width - 1}, round(y), height, k.color})
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

// faultTicks draws the faults of a name above its bars.
func (c *chart) faultTicks(r *row, faults []Fault) {
	height := min(r.Bar-r.Y-3, 12)
	each(byName(faults, func(f Fault) string { return kindOf(f.Kind).color }), func(color string, faults []Fault) {
		var d strings.Builder
		for _, f := range faults {
			fmt.Fprintf(&d, "M%g %dv%d", c.x(f.At), r.Bar-height-1, height)
		}
		r.Faults = append(r.Faults, path{color, d.String()})
	})
}

// cut is a time in which workers could not reach the backend.
type cut struct {
	stretch
	Title string
}

// outage is the rule of chaos.TotalOutage, whose faults are errors like others.
const outage = "outage"

// cuts draws the windows of partitions and outages, from the first request that
// they hit to the last.
func (c *chart) cuts(h *History) {
	cutting := slices.DeleteFunc(slices.Clone(h.Faults), func(f Fault) bool {
		return !f.injected() || f.Kind != string(chaos.FaultPartitioned) && f.Rule != outage
	})
	each(byName(cutting, func(f Fault) string { return f.Rule }), func(rule string, hits []Fault) {
		for _, hits := range windows(hits, h.TTL) {
			s := span{hits[0].At, hits[len(hits)-1].At}
			c.Cuts = append(c.Cuts, cut{c.stretch(s, 2), fmt.Sprintf("%s: %s, from %s until %s, %d requests",
				cmp.Or(rule, "cut off"), workersOf(hits), seconds(s.from), seconds(s.to), len(hits))})
		}
	})
}

// windows splits faults where there was none for longer than pause: holders ask
// more often than that.
func windows(hits []Fault, pause time.Duration) (all [][]Fault) {
	for i, f := range hits {
		if i == 0 || f.At-hits[i-1].At > pause {
			all = append(all, nil)
		}
		all[len(all)-1] = append(all[len(all)-1], f)
	}
	return all
}

func workersOf(hits []Fault) string {
	workers := map[int]bool{}
	for _, f := range hits {
		workers[f.Worker] = true
	}
	if len(workers) == 1 {
		return fmt.Sprint("worker ", hits[0].Worker)
	}
	return "workers " + ranges(slices.Sorted(maps.Keys(workers)))
}

// band is a disturbance.
type band struct {
	stretch
	Text    string
	Y       int
	Still   bool // one process stands still, which its bars show
	Lasting bool // a while that concerns all
}

// disturbances draws what befell servers and processes. The texts take turns in a
// few lanes, so that near ones can be read.
func (c *chart) disturbances(h *History) {
	var ends []float64 // where the last text of each lane ends
	top := c.Top - 2
	for _, f := range h.Faults {
		if f.injected() {
			continue
		}
		b := band{stretch: c.stretch(span{f.At, max(f.At, f.Until)}, 1.5), Text: f.Kind}
		b.Still = slices.ContainsFunc(h.Stops, func(s Stop) bool { return s.From == f.At })
		b.Lasting = f.Until > f.At && !b.Still
		i := slices.IndexFunc(ends, func(end float64) bool { return end < b.X })
		if i < 0 {
			i, ends = len(ends), append(ends, 0)
		}
		ends[i] = b.X + max(b.Width, 6.2*float64(len(f.Kind))) + 10
		b.Y = top + i*lane
		c.Bands = append(c.Bands, b)
	}
	c.Top += len(ends) * lane
}
