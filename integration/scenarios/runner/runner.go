package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/integration/scenarios/place"
)

// Scenario is a sample program, and the trouble that its processes run into.
type Scenario struct {
	Name   string
	About  string        // one line
	Sample string        // the program: a folder of module samples
	TTL    time.Duration // of the workers' leases; raised to the backend's minimum
	// Control starts workers and checks the outcome: an error means a broken promise.
	Control func(ctx context.Context, s *Runner) error
}

// Runner is one run of a scenario. Its methods, except Send, are for one goroutine.
type Runner struct {
	Place   place.Place
	Data    *place.Data
	Manager *leasing.Manager // the parent's own
	TTL     time.Duration    // as granted
	out     io.Writer
	start   time.Time

	program string
	flags   []string
	workers map[string]*process
	running int
	err     error // of a request to a worker; Next returns it
	reports chan Report
	readers sync.WaitGroup
}

// Run sets up the place, runs the scenario with its sample from the folder that Build has filled, and removes the place.
func Run(ctx context.Context, folder string, scenario Scenario, url string, out io.Writer) (err error) {
	where, clear, err := place.SetUp(ctx, scenario.Name, url)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, clear()) }()
	manager, data, closeAll, err := where.Connect(ctx, leasing.Options{Owner: "parent", TTL: scenario.TTL, RaiseToMinTTL: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeAll()) }()

	ttl := max(scenario.TTL, manager.Capabilities().MinTTL)
	limit := time.Minute + 10*(ttl-scenario.TTL) // far more than any scenario takes, even on a slow machine
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("%s took longer than %v", scenario.Name, limit))
	s := &Runner{
		Place: where, Data: data, Manager: manager, TTL: ttl, out: out, start: time.Now(),
		program: filepath.Join(folder, scenario.Sample), workers: map[string]*process{}, reports: make(chan Report),
		flags: []string{"-step", "-name", where.Lease(scenario.Name), "-ttl", scenario.TTL.String()},
	}
	defer s.end()
	defer cancel() // unblocks Send: no goroutine reads reports any more
	return scenario.Control(ctx, s)
}

// RunWorkers starts n workers, named w1, w2 and so on, and then calls Follow.
func (s *Runner) RunWorkers(ctx context.Context, n int, on func(Report) (goOn bool), args ...string) error {
	for i := range n {
		if err := s.Start(ctx, fmt.Sprintf("w%d", i+1), args...); err != nil {
			return err
		}
	}
	return s.Follow(ctx, on)
}

// Follow prints each report and passes it to on, until all workers have ended. The result of on says whether the worker may
// continue: it is false after Kill or Pause.
func (s *Runner) Follow(ctx context.Context, on func(Report) (goOn bool)) error {
	for s.Running() > 0 {
		r, err := s.Next(ctx)
		if err != nil {
			return err
		}
		s.Line(r)
		if on(r) {
			s.Continue(r.Worker)
		}
	}
	return nil
}

// Line prints a report, if it has a text, and the trust that is left.
func (s *Runner) Line(r Report) {
	if r.Trust > 0 {
		r.Text = fmt.Sprintf("%-40s trust %s", r.Text, Bar(r.Trust, s.TTL))
	}
	if r.Text != "" {
		_, _ = fmt.Fprintf(s.out, "%6.2fs  %-3s %s\n", r.At.Sub(s.start).Seconds(), r.Worker, r.Text)
	}
}

// Bar shows how much of a TTL is left.
func Bar(left, ttl time.Duration) string {
	const cells = 15
	full := max(0, min(cells, int((left*cells+ttl/2)/ttl)))
	return fmt.Sprintf("%s%s %.2fs", strings.Repeat("█", full), strings.Repeat("░", cells-full), left.Seconds())
}

// Announce prints a step of the parent.
func (s *Runner) Announce(format string, args ...any) {
	s.Line(Report{At: time.Now(), Text: "── " + fmt.Sprintf(format, args...)})
}

// OK prints a check that has passed.
func (s *Runner) OK(format string, args ...any) {
	_, _ = fmt.Fprintf(s.out, "ok  %s\n", fmt.Sprintf(format, args...))
}

// Table prints rows. The first row is the header.
func (s *Runner) Table(rows ...[]any) {
	_, _ = fmt.Fprintln(s.out)
	table := tabwriter.NewWriter(s.out, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for _, cell := range row {
			_, _ = fmt.Fprint(table, cell, "\t")
		}
		_, _ = fmt.Fprintln(table)
	}
	_ = table.Flush()
	_, _ = fmt.Fprintln(s.out)
}
