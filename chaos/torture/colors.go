package torture

import (
	"fmt"
	"slices"

	"github.com/distributedleasing/leasing/chaos"
)

// workerColors are told apart by most people, also by those who see red and
// green alike, and are lighter than the marks upon them: after Paul Tol's
// schemes at personal.sron.nl/~pault. None is red, which is for violations.
var workerColors = []string{
	"#77aadd", "#eedd88", "#44bb99", "#ffaabb", "#aaaa00", "#99ddff",
	"#bbcc33", "#ee8866", "#b9a3e3", "#c9c9c9", "#8fb8a8", "#d6b48c",
}

func workerColor(i int) string { return workerColors[i%len(workerColors)] }

// kind is how a kind of fault is shown and told.
type kind struct{ kind, color, text string }

// kinds are in the order of the legend. Each has a color of its own, which can be
// read on white and told apart also by those who see red and green alike.
var kinds = []kind{
	{string(chaos.FaultDelay), "#b4b4b4", "delay: a slow answer"},
	{string(chaos.FaultHang), "#6b6b6b", "hang: no answer until the caller gives up"},
	{string(chaos.FaultThrottle), "#faab01", "throttle: refused for now, with the advice to come back later"},
	{string(chaos.FaultError), otherColor, "error: the backend fails"},
	{string(chaos.FaultRequestLost), "#6c350d", "request lost: the caller can't know that nothing was done"},
	{string(chaos.FaultReplyLost), "#a83dff", "reply lost: it was done, and the caller can't know"},
	{string(chaos.FaultDeliveredLate), "#0037a8", "delivered late: done when nobody expects it any more"},
	{string(chaos.FaultAppliedTwice), "#3578c3", "applied twice: as by a client that retries by itself"},
	{string(chaos.FaultStaleRead), "#5ac771", "stale read: as by a replica that lags"},
	{string(chaos.FaultHintsLost), "#00caf3", "hints lost: a waiter is not woken"},
	{string(chaos.FaultPartitioned), "#111111", "partitioned: cut off from the backend"},
	{string(chaos.FaultBroken), "#76156e", "broken: an operator breaks the lease under its holder"},
}

// otherColor is of errors, and of kinds that came after this list.
const otherColor = "#cb5500"

// kindOf returns how to show a kind.
func kindOf(name string) kind {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.kind == name }); i >= 0 {
		return kinds[i]
	}
	return kind{name, otherColor, name}
}

type swatch struct{ Color, Text string }

// legend explains what is in a chart, and only that.
type legend struct {
	Workers  []swatch
	Kinds    []swatch
	Repeated int  // the first worker with the color of another; 0 if there is none
	Lost     bool // each of the following: it occurs
	Left     bool
	Free     bool
	Shared   bool
	Still    bool
	Struck   bool // something befell a process or server at a moment
	Lasting  bool // or for a while
	Cut      bool
}

func newLegend(h *History, c *chart) *legend {
	l := &legend{Cut: len(c.Cuts) > 0}
	for _, r := range c.Rows {
		l.Lost, l.Left, l.Free = l.Lost || r.Lost != "", l.Left || r.Left != "", l.Free || r.Free > 0
		l.Shared = l.Shared || len(r.Shared) > 0
	}
	for _, b := range c.Bands {
		l.Still, l.Lasting, l.Struck = l.Still || b.Still, l.Lasting || b.Lasting, l.Struck || !b.Still && !b.Lasting
	}
	workers := holders(h.Holds)
	for i := range workerColors {
		if workers[i] {
			l.Workers = append(l.Workers, swatch{workerColor(i), fmt.Sprint("worker ", i)})
		}
	}
	for i := range workers {
		if i >= len(workerColors) {
			l.Repeated = len(workerColors)
		}
	}
	seen := byName(h.Faults, func(f Fault) string { return f.Kind })
	for _, k := range kinds {
		if len(seen[k.kind]) > 0 {
			l.Kinds = append(l.Kinds, swatch{k.color, k.text})
		}
	}
	return l
}

func holders(holds []Hold) map[int]bool {
	workers := map[int]bool{}
	for _, t := range holds {
		workers[t.Worker] = true
	}
	return workers
}
