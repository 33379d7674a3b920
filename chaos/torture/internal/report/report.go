package report

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/chaos/torture/internal/check"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
	"github.com/distributedleasing/leasing/chaos/torture/internal/run"
)

// Report is the result of a run.
type Report struct {
	Provider string
	// Options are the options of the run, with defaults filled in, the seed included.
	run.Options

	Requests int            // of the workers' managers, each checked as they saw it and as the backend did
	Grants   int            // to workers
	Renewals int            // successful
	Endings  map[string]int // given up, lost, abandoned (by a crash), killed
	Accepted int            // writes
	Stale    int            // writes refused
	Faults   map[string]int // of the plan, by kind
	// Disturbances counts the actions of Options.Disturb, by kind.
	Disturbances map[string]int
	Lateness     Distribution  // from the end of trust until a holder learned of its loss
	Freed        time.Duration // from the last client's end until the last name was free
	Undecided    []string      // orders of a name that were too many to try all

	Violations []history.Violation

	record run.Record
}

// Of checks the history of a run, and makes the report.
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

// summary counts the items of a history.
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

// short rounds a duration to some three digits.
func short(d time.Duration) time.Duration {
	switch {
	case d > time.Second:
		return d.Round(10 * time.Millisecond)
	case d > time.Millisecond:
		return d.Round(10 * time.Microsecond)
	}
	return d.Round(time.Microsecond / 10)
}

// WriteHistory writes all that the run has recorded, and all that is needed to check it
// again, as JSON for Verify. Its durations are nanoseconds.
func (r *Report) WriteHistory(w io.Writer) error {
	return json.NewEncoder(w).Encode(r.record)
}
