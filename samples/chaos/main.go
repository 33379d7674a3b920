// Command chaos shows whether leases keep their promises while things go wrong:
// workers compete for a few names on a real backend, faults are injected into their
// requests, and all that was asked and answered is checked.
//
//	go run ./chaos                                          # a temporary SQLite file, 10 s
//	go run ./chaos -plan lost-replies -for 60s -seed 7
//	go run ./chaos -provider redis://127.0.0.1:6379/0 -plan all -for 2m -html run.html
//	go run ./chaos -provider redlock -plan flaky-network    # three servers of its own, killed in turn
//	go run ./chaos -provider postgres://... -plan my.json -json run.json
//	go run ./chaos -processes -for 30s                      # worker processes, stopped and killed
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
	"strings"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

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
	html, json     string
	assumptions    bool
	processes      bool
}

func main() {
	redis.SetLogger(silence{}) // each failed attempt to connect is a line otherwise
	torture.WorkerMain(openFromEnvironment)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr, setUp)
	stop()
	os.Exit(code)
}

// preparation prepares the backend that a command line asks for.
type preparation func(ctx context.Context, provider string) (*backend, error)

// silence is a logger of go-redis. What matters comes as an error, too.
type silence struct{}

func (silence) Printf(context.Context, string, ...any) {}

// run returns the exit code.
func run(ctx context.Context, args []string, out, complaints io.Writer, prepare preparation) int {
	s, err := parse(args, complaints)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	if err == nil && s.plan == "help" {
		fmt.Fprintln(out, "ready-made plans:", strings.Join(chaos.Names(), ", "))
		return 0
	}
	var broken bool
	if err == nil {
		broken, err = s.play(ctx, out, prepare)
	}
	if err != nil {
		fmt.Fprintln(complaints, "chaos:", err)
	}
	switch {
	case broken:
		return 1
	case err != nil:
		return 2
	}
	return 0
}

func parse(args []string, complaints io.Writer) (s settings, err error) {
	flags := flag.NewFlagSet("chaos", flag.ContinueOnError)
	flags.SetOutput(complaints)
	flags.StringVar(&s.provider, "provider", "sqlite", "a provider's `URL` (sqlite, postgres, redis, azblob, cosmos), or memory, sqlite or redlock for one of its own")
	flags.StringVar(&s.plan, "plan", "flaky-network", "a ready-made plan, a `file` with one in JSON, all, or help")
	flags.DurationVar(&s.total, "for", 10*time.Second, "how long faults happen, in all")
	flags.Uint64Var(&s.seed, "seed", 0, "decides what is left to chance, but not the order in which things happen (default: a random one)")
	flags.IntVar(&s.workers, "workers", 8, "how many compete")
	flags.IntVar(&s.names, "names", 4, "for how many names")
	flags.DurationVar(&s.ttl, "ttl", 0, "of the leases (default: 2s, or the provider's least)")
	flags.StringVar(&s.html, "html", "", "a `file` for the timeline; with -plan all one for each plan")
	flags.StringVar(&s.json, "json", "", "a `file` for report and history; with -plan all one for each plan")
	flags.BoolVar(&s.assumptions, "assumptions-broken", false, "the server forgets leases while this runs: check only what must hold then")
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
	if s.plan == "all" {
		for _, name := range chaos.Names() {
			plan, err := chaos.Named(name, s.seed)
			if err != nil {
				return nil, err
			}
			plans = append(plans, plan)
		}
		return plans, nil
	}
	plan, err := chaos.Named(s.plan, s.seed)
	if err != nil {
		text, read := os.ReadFile(s.plan)
		if errors.Is(read, os.ErrNotExist) {
			return nil, fmt.Errorf("%w, or a file: %w", err, read)
		}
		if read != nil {
			return nil, read
		}
		if plan, err = chaos.ParsePlan(text); err != nil {
			return nil, fmt.Errorf("%s: %w", s.plan, err)
		}
	}
	return []chaos.Plan{plan}, nil
}

// play runs the plans one after the other and says whether a promise was broken.
func (s settings) play(ctx context.Context, out io.Writer, prepare preparation) (broken bool, err error) {
	plans, err := s.plans()
	if err != nil {
		return false, err
	}
	if err := s.claimFiles(plans); err != nil {
		return false, err
	}
	where, err := prepare(ctx, s.provider)
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, where.clear()) }()
	var failed []string
	for _, plan := range plans {
		options, err := s.options(plan, len(plans), where, out)
		if err != nil {
			return len(failed) > 0, err
		}
		report, err := torture.Run(ctx, options)
		if err != nil {
			return len(failed) > 0, err
		}
		if _, err := fmt.Fprintf(out, "%s\n", report); err != nil {
			return !report.OK() || len(failed) > 0, err
		}
		if err := s.write(report, len(plans) > 1); err != nil {
			return !report.OK() || len(failed) > 0, err
		}
		if !report.OK() {
			failed = append(failed, plan.Name)
		}
	}
	if len(plans) > 1 {
		fmt.Fprintf(out, "%d plans on %s: %s\n", len(plans), s.backend(), verdict(failed))
	}
	return len(failed) > 0, nil
}

func verdict(failed []string) string {
	if len(failed) == 0 {
		return "no violation"
	}
	return "VIOLATIONS under " + strings.Join(failed, ", ")
}

func (s settings) options(plan chaos.Plan, plans int, where *backend, out io.Writer) (o torture.Options, err error) {
	o = torture.Options{
		Open: where.open, Disturb: where.disturb, Plan: plan, Seed: s.seed,
		Workers: s.workers, Names: s.names, TTL: s.ttl, For: s.total / time.Duration(plans),
		AssumptionsBroken: s.assumptions,
		Command:           s.command(plan.Name, s.total/time.Duration(plans)),
		Progress:          progress(out, plan.Name),
	}
	if s.processes {
		o.Process, err = where.process()
	}
	return o, err
}

// command is what to type to see one plan's run again. The URL may hold a password.
func (s settings) command(plan string, length time.Duration) string {
	if plan == "" || s.plan != "all" {
		plan = s.plan
	}
	text := fmt.Sprintf("go run -C samples ./chaos -provider %s -plan %s -for %v -seed %d -workers %d -names %d",
		s.backend(), plan, length, s.seed, s.workers, s.names)
	if s.ttl > 0 {
		text += fmt.Sprintf(" -ttl %v", s.ttl)
	}
	if s.assumptions {
		text += " -assumptions-broken"
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

// claimFiles makes the files that were asked for, so that a run does not end with
// nowhere to put its result.
func (s settings) claimFiles(plans []chaos.Plan) error {
	if s.html != "" && s.html == s.json {
		return fmt.Errorf("-html and -json name the same file, %s", s.html)
	}
	for _, path := range []string{s.html, s.json} {
		if path == "" {
			continue
		}
		for _, plan := range plans {
			if err := toFile(s.path(path, plan.Name, len(plans) > 1), func(io.Writer) error { return nil }); err != nil {
				return err
			}
		}
	}
	return nil
}

// path is where a plan's result goes.
func (s settings) path(path, plan string, several bool) string {
	if several {
		return between(path, plan)
	}
	return path
}

// write writes the files that were asked for.
func (s settings) write(report *torture.Report, several bool) error {
	for path, write := range map[string]func(io.Writer) error{s.html: report.WriteHTML, s.json: report.WriteJSON} {
		if path == "" {
			continue
		}
		if err := toFile(s.path(path, report.Plan, several), write); err != nil {
			return err
		}
	}
	return nil
}

// between puts a plan's name before the extension.
func between(path, plan string) string {
	dot := strings.LastIndexByte(path, '.')
	if dot <= strings.LastIndexByte(path, '/') {
		return path + "-" + plan
	}
	return path[:dot] + "-" + plan + path[dot:]
}

func toFile(path string, write func(io.Writer) error) error {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(write(file), file.Close())
}
