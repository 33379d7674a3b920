// Command chaos shows whether leases keep their promises while things go wrong:
// workers compete for a few names on a real backend, faults are injected into their
// requests, and all that was asked and answered is checked.
//
//	go run ./chaos                                          # a temporary SQLite file, 10 s
//	go run ./chaos -plan lost-replies -for 60s -seed 7
//	go run ./chaos -provider redis://127.0.0.1:6379/0 -plan all -for 2m -html run.html
//	go run ./chaos -provider postgres://... -plan my.json
//	go run ./chaos -processes -for 30s                      # worker processes, stopped and killed
//	go run ./chaos -intensity 50 -for 1h -operations 1000000
//	go run ./chaos -history run.json && go run ./chaos -verify run.json
//
// Look at the verdict, and with -html at the timeline: bars of a row never overlap.
// The plan is the name of a ready-made one (-plan help lists them), a file with one
// in JSON, or all: the ready-made ones in turn, which share the time.
//
// Each worker has a client of its own, like a process of yours. It takes leases for
// less and more than their TTL, some without renewal, crashes now and then, and
// writes with its fencing token, also once more after it has lost its lease.
//
// The seed decides about faults and about what workers do, but not about when: in real
// time the same seed gives a run alike, not the same one. Where that matters, run in
// virtual time: see the examples of chaos/torture.
//
// The exit code is 1 if a promise was broken, and 2 if the run could not be made.
// Package chaos/torture says what is checked. In tests of your own, call it, or
// wrap your provider with package chaos: see its examples.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9/logging"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
)

// settings are the command line.
type settings struct {
	provider, plan string
	total          time.Duration
	seed           uint64
	workers, names int
	ttl            time.Duration
	intensity      float64
	operations     int
	html, history  string
	verify         string
	processes      bool
}

func main() {
	logging.Disable() // each failed attempt to connect is a line otherwise
	torture.WorkerMain(openFromEnvironment)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, setUp)
	stop()
	os.Exit(code)
}

// preparation prepares the backend that a command line asks for.
type preparation func(ctx context.Context, provider string) (*backend, error)

// errBroken is the end of a run in which a promise was broken.
var errBroken = errors.New("a promise was broken")

// run returns the exit code.
func run(ctx context.Context, args []string, out, complaints io.Writer, prepare preparation) int {
	s, err := parse(args, complaints)
	if err == nil {
		err = s.runPlans(ctx, out, prepare)
	}
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return 0
	}
	fmt.Fprintln(complaints, "chaos:", err)
	if errors.Is(err, errBroken) {
		return 1
	}
	return 2
}

func parse(args []string, complaints io.Writer) (s settings, err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(complaints)
	flags.StringVar(&s.provider, "provider", "sqlite", "a provider's `URL` (sqlite, postgres, redis, azblob, cosmos), or memory or sqlite for one of its own")
	flags.StringVar(&s.plan, "plan", "flaky-network", "a ready-made plan, a `file` with one in JSON, all, or help")
	flags.DurationVar(&s.total, "for", 10*time.Second, "how long faults happen, in all")
	flags.Uint64Var(&s.seed, "seed", 0, "decides what is left to chance, but not the order in which things happen (default: a random one)")
	flags.IntVar(&s.workers, "workers", 8, "how many compete")
	flags.IntVar(&s.names, "names", 4, "for how many names")
	flags.DurationVar(&s.ttl, "ttl", 0, "of the leases (default: 2s, or the provider's least)")
	flags.Float64Var(&s.intensity, "intensity", 1, "how busy the workers are")
	flags.IntVar(&s.operations, "operations", 0, "end after so many requests, in all, if that is sooner (default: no such end)")
	flags.StringVar(&s.history, "history", "", "a `file` for what was recorded, to be checked again with -verify; with -plan all one for each plan")
	flags.StringVar(&s.verify, "verify", "", "check what was recorded in a `file`, and do nothing else")
	flags.StringVar(&s.html, "html", "", "a `file` for the timeline; with -plan all one for each plan")
	flags.BoolVar(&s.processes, "processes", false, "make each worker a process; some are stopped past their TTL, some killed")
	err = flags.Parse(args)
	if s.seed == 0 {
		s.seed = uint64(rand.Uint32()) + 1
	}
	if err == nil && flags.NArg() > 0 {
		err = fmt.Errorf("there is no argument %q", flags.Arg(0))
	}
	return s, err
}

// plans are those that are asked for.
func (s settings) plans() (plans []chaos.Plan, err error) {
	names := []string{s.plan}
	if s.plan == "all" {
		names = chaos.Names()
	}
	for _, name := range names {
		plan, err := chaos.Named(name, s.seed)
		if err != nil {
			text, noFile := os.ReadFile(name)
			if noFile != nil {
				return nil, fmt.Errorf("%w, or a file: %w", err, noFile)
			}
			if plan, err = chaos.ParsePlan(text); err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
		}
		plans = append(plans, plan)
	}
	return plans, nil
}

// runPlans runs the plans one after the other.
func (s settings) runPlans(ctx context.Context, out io.Writer, prepare preparation) (err error) {
	if s.verify != "" {
		return s.verifyFile(out)
	}
	if s.plan == "help" {
		_, err = fmt.Fprintln(out, "ready-made plans:", strings.Join(chaos.Names(), ", "))
		return err
	}
	plans, err := s.plans()
	if err != nil {
		return err
	}
	for _, plan := range plans { // so that a run does not end with nowhere to put its timeline
		for _, path := range []string{s.html, s.history} {
			if err := s.write(path, plan.Name, func(io.Writer) error { return nil }); err != nil {
				return err
			}
		}
	}
	where, err := prepare(ctx, s.provider)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, where.clear()) }()
	var failed []string
	for _, plan := range plans {
		report, problem := s.runPlan(ctx, plan, len(plans), where, out)
		if report != nil && !report.OK() {
			failed = append(failed, plan.Name)
		}
		if err = problem; err != nil {
			break
		}
	}
	switch {
	case len(failed) > 0:
		err = errors.Join(err, fmt.Errorf("%w under %s", errBroken, strings.Join(failed, ", ")))
	case s.plan == "all" && err == nil:
		_, err = fmt.Fprintf(out, "%d plans on %s: no violation\n", len(plans), s.backend())
	}
	return err
}

// verifyFile checks a history that was saved.
func (s settings) verifyFile(out io.Writer) error {
	file, err := os.Open(s.verify)
	if err != nil {
		return err
	}
	report, err := torture.Verify(file)
	if err = errors.Join(err, file.Close()); err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%s\n", report)
	if !report.OK() {
		err = errors.Join(err, errBroken)
	}
	return err
}

// runPlan runs one of so many plans, and prints and writes what came of it.
func (s settings) runPlan(ctx context.Context, plan chaos.Plan, plans int, where *backend, out io.Writer) (*torture.Report, error) {
	options, length := where.Options, s.total/time.Duration(plans)
	options.Intensity, options.Operations = s.intensity, (s.operations+plans-1)/plans
	options.Plan, options.Seed, options.Workers, options.Names = plan, s.seed, s.workers, s.names
	options.TTL, options.For = s.ttl, length
	options.Command, options.Progress = s.command(plan.Name, length), progress(out, plan.Name)
	switch {
	case !s.processes:
		options.Process = nil
	case options.Process == nil:
		return nil, errors.New("leases in memory can't be reached by other processes")
	}
	report, err := torture.Run(ctx, options)
	if err != nil {
		return nil, err
	}
	_, err = fmt.Fprintf(out, "%s\n", report)
	return report, errors.Join(err, s.write(s.html, plan.Name, report.WriteHTML), s.write(s.history, plan.Name, report.WriteHistory))
}

// command is what to type to see one plan's run again. The URL may hold a password.
func (s settings) command(plan string, length time.Duration) string {
	if s.plan != "all" {
		plan = s.plan
	}
	text := fmt.Sprintf("go run -C samples ./chaos -provider %s -plan %s -for %v -seed %d -workers %d -names %d",
		s.backend(), plan, length, s.seed, s.workers, s.names)
	if s.ttl > 0 {
		text += fmt.Sprintf(" -ttl %v", s.ttl)
	}
	if s.intensity != 1 {
		text += fmt.Sprintf(" -intensity %v", s.intensity)
	}
	if s.processes {
		text += " -processes"
	}
	return text
}

// backend is the provider without what may be secret.
func (s settings) backend() string {
	scheme, _, isURL := strings.Cut(s.provider, "://")
	if !isURL {
		return s.provider
	}
	return "'" + scheme + "://...'"
}

// write writes a plan's file, if there is to be one.
func (s settings) write(path, plan string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	if s.plan == "all" {
		extension := filepath.Ext(path)
		path = strings.TrimSuffix(path, extension) + "-" + plan + extension
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
