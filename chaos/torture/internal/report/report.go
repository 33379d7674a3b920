package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/distributedleasing/leasing/chaos/torture/internal/check"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	"github.com/distributedleasing/leasing/chaos/torture/internal/run"
)

// Report is the result of a run.
type Report struct {
	Provider string
	// Options are the options of the run, with defaults filled in, including the seed.
	run.Options

	Requests int            // of the workers' managers; each is checked as the client saw it and as the backend saw it
	Grants   int            // to workers
	Renewals int            // successful
	Endings  map[string]int // given up, lost, abandoned (by a crash), killed
	Accepted int            // writes
	Stale    int            // writes refused
	Faults   map[string]int // of the plan, by kind
	// Disturbances counts the actions of Options.Disturb, by kind.
	Disturbances map[string]int
	Lateness     Distribution  // from the end of trust until a holder was notified of its loss
	Freed        time.Duration // from the last client's end until the last name was free
	Undecided    []string      // names (with layers) whose operations have too many possible orders to try

	Violations []history.Violation

	record run.Record
}

// Of checks the history of a run, and returns the report.
func Of(record run.Record) *Report {
	h, options := record.History, run.Options(record.Options)
	l := options.Limits(record.Lateness, record.Pushes)
	check.Stopwatch(h, l)
	r := summary(h)
	r.Provider, r.Options, r.record = record.Provider, options, record
	violations, undecided := check.Verify(h, l)
	r.Violations, r.Undecided = append(slices.Clone(h.Found), violations...), undecided
	return r
}

func summary(h *history.History) *Report {
	r := &Report{Endings: map[string]int{}, Faults: map[string]int{}, Disturbances: map[string]int{}}
	for i := range h.Operations {
		if h.Operations[i].Layer == history.LayerClient {
			r.Requests++
		}
	}
	var late []time.Duration
	for _, t := range h.Holds {
		r.Grants++
		r.Renewals += t.Renewals
		r.Endings[string(t.Ending)]++
		if d, ok := h.Late(t); ok {
			late = append(late, d)
		}
	}
	for _, w := range h.Writes {
		if w.Accepted {
			r.Accepted++
		} else {
			r.Stale++
		}
	}
	for _, f := range h.Faults {
		if f.Injected() {
			r.Faults[f.Kind]++
		} else {
			r.Disturbances[f.Kind]++
		}
	}
	for _, f := range h.Free {
		r.Freed = max(r.Freed, f.At-h.Closed)
	}
	r.Lateness = distribution(late)
	return r
}

// Distribution summarizes a set of durations.
type Distribution struct {
	N   int
	P50 time.Duration
	P99 time.Duration
	Max time.Duration
}

func distribution(all []time.Duration) Distribution {
	if len(all) == 0 {
		return Distribution{}
	}
	slices.Sort(all)
	at := func(percent int) time.Duration { return all[min(len(all)-1, len(all)*percent/100)] }
	return Distribution{N: len(all), P50: at(50), P99: at(99), Max: all[len(all)-1]}
}

func (d Distribution) String() string {
	if d.N == 0 {
		return "none"
	}
	return fmt.Sprintf("%d: half within %v, 99%% within %v, all within %v", d.N, short(d.P50), short(d.P99), short(d.Max))
}

// short rounds a duration to about three digits.
func short(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond / 10)
}

// WriteHistory writes the recorded history, with the data needed to check it again, as JSON for
// Verify. Its durations are nanoseconds.
func (r *Report) WriteHistory(w io.Writer) error {
	return json.NewEncoder(w).Encode(r.record)
}

// OK reports whether the run has no violations. An unfinished search does not count as a
// violation: see Undecided.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Err returns nil if there is no violation and no name is undecided, and otherwise an error with
// the report as its text.
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

// String returns the report as text, about twenty lines.
func (r *Report) String() string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	r.lines(func(what, format string, args ...any) { fmt.Fprintf(w, "%s\t%s\n", what, fmt.Sprintf(format, args...)) })
	fmt.Fprintf(w, "verdict\t%s\n", r.Verdict())
	_ = w.Flush() // to a strings.Builder
	r.violations(&b)
	return b.String()
}

// lines calls line for each line of the report except the verdict.
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
	line("notice of a loss", "%s", r.Lateness)
	line("all free", "%v after the end", short(r.Freed))
	if r.AssumptionsBroken {
		line("not checked", "overlap, linearizable, rules, cleanup, liveness, ghost, refusal, and whether a holder's write was refused: the run breaks assumptions on purpose")
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

// counts lists the kinds with their counts, in descending order of the counts.
func counts(all map[string]int) string {
	var parts []string
	for _, kind := range slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Or(all[b]-all[a], strings.Compare(a, b)) }) {
		parts = append(parts, fmt.Sprintf("%d %s", all[kind], strings.ReplaceAll(kind, "_", " ")))
	}
	return cmp.Or(strings.Join(parts, ", "), "none")
}
