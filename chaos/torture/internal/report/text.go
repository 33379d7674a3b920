package report

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
)

// OK reports whether there is no violation. An unfinished search does not count
// as one: see Undecided.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Err is nil if there is no violation and nothing is undecided. Its text is the report.
func (r *Report) Err() error {
	if r.OK() && len(r.Undecided) == 0 {
		return nil
	}
	return fmt.Errorf("torture: %s\n%s", r.Verdict(), r)
}

// Verdict returns the outcome in a few words.
func (r *Report) Verdict() string {
	switch {
	case !r.OK() && len(r.Violations) == 1:
		return "FAILED: 1 violation"
	case !r.OK():
		return fmt.Sprintf("FAILED: %d violations", len(r.Violations))
	case len(r.Undecided) > 0:
		return fmt.Sprintf("no violation; %d names with too many possible orders to try all", len(r.Undecided))
	}
	return "no violation"
}

// String returns the report as text, some twenty lines.
func (r *Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	r.lines(func(what, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", what, fmt.Sprintf(format, args...)) })
	fmt.Fprintf(w, "verdict\t%s\n", r.Verdict())
	_ = w.Flush() // to a strings.Builder
	r.violations(&b)
	return b.String()
}

// lines passes the lines of the report, without the verdict, to line.
func (r *Report) lines(line func(what, format string, args ...any)) {
	line("provider", "%s, TTL %v", r.Provider, r.TTL)
	line("plan", "%s, seed %d", r.planName(), r.Seed)
	line("run", "%d workers, %d names, %v", r.Workers, r.Names, r.For)
	line("requests", "%d", r.Requests)
	line("leases", "%d granted, %d renewals; %s", r.Grants, r.Renewals, counts(r.Endings))
	line("writes", "%d accepted, %d stale and refused", r.Accepted, r.Stale)
	line("faults", "%s", counts(r.Faults))
	if len(r.Disturbances) > 0 {
		line("disturbances", "%s", counts(r.Disturbances))
	}
	line("word of a loss", "%s", r.Lateness)
	line("all free", "%v after the end", short(r.Freed))
	if r.AssumptionsBroken {
		line("not checked", "overlap, linearizable, rules, cleanup, liveness, ghost, refusal, and whether a holder's write was: the run breaks assumptions on purpose")
	}
	for _, open := range r.Undecided {
		line("undecided", "%s", open)
	}
}

func (r *Report) planName() string { return cmp.Or(r.Plan.Name, "no name") }

// violations lists the first violations, and the command that repeats the run.
func (r *Report) violations(w io.Writer) {
	const most = 20
	for i, v := range r.Violations {
		if i == most {
			fmt.Fprintf(w, "  and %d more\n", len(r.Violations)-most)
			break
		}
		fmt.Fprintf(w, "  %s\n", v)
	}
	if !r.OK() && r.Command != "" {
		fmt.Fprintf(w, "again: %s\n", r.Command)
	}
}

// counts lists the kinds with their counts, in descending order.
func counts[K ~string](all map[K]int) string {
	if len(all) == 0 {
		return "none"
	}
	keys := slices.SortedFunc(maps.Keys(all), func(a, b K) int {
		if all[a] != all[b] {
			return all[b] - all[a]
		}
		return strings.Compare(string(a), string(b))
	})
	var parts []string
	for _, k := range keys {
		parts = append(parts, fmt.Sprintf("%d %s", all[k], strings.ReplaceAll(string(k), "_", " ")))
	}
	return strings.Join(parts, ", ")
}
