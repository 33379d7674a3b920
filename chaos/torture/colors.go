package torture

import (
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

// kinds are in the order of the legend. Kinds that look alike to a client share
// a color.
var kinds = []kind{
	{string(chaos.Delay), "#a6a6a6", "delay: a slow answer"},
	{string(chaos.Hang), "#6b6b6b", "hang: no answer until the caller gives up"},
	{string(chaos.Throttle), "#c9a400", "throttle: refused for now, with the advice to come back later"},
	{string(chaos.Error), "#e07b00", "error: the backend fails"},
	{string(chaos.RequestLost), "#e07b00", "request lost: the caller can't know that nothing was done"},
	{string(chaos.ReplyLost), "#8e3fc4", "reply lost: it was done, and the caller can't know"},
	{string(chaos.DeliveredLate), "#8e3fc4", "delivered late: done when nobody expects it any more"},
	{string(chaos.AppliedTwice), "#3f5fd0", "applied twice: as by a client that retries by itself"},
	{string(chaos.StaleRead), "#3f5fd0", "stale read: as by a replica that lags"},
	{string(chaos.HintsLost), "#3f5fd0", "hints lost: a waiter is not woken"},
	{string(chaos.Partitioned), "#1f1f1f", "partitioned: cut off from the backend"},
	{string(chaos.Broken), "#b5006b", "broken: an operator breaks the lease under its holder"},
}

// kindOf returns how to show a kind; those that came after this list are errors.
func kindOf(name string) kind {
	if i := slices.IndexFunc(kinds, func(k kind) bool { return k.kind == name }); i >= 0 {
		return kinds[i]
	}
	return kind{name, "#e07b00", name}
}

// kindColors are the colors of faults, each once.
func kindColors() (colors []string) {
	for _, k := range kinds {
		if !slices.Contains(colors, k.color) {
			colors = append(colors, k.color)
		}
	}
	return colors
}
