package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
)

// workerVariable is the environment variable that passes the backend's URL to a worker process.
const workerVariable = "LEASING_TORTURE_URL"

// tortureFlags are the flags of torture.
type tortureFlags struct {
	torture.Options
	plan, html, history, verify string
	processes                   bool
}

// everyPlan is the name that selects all ready-made plans.
const everyPlan = "all"

func (a *app) tortureCommand() *cobra.Command {
	f := &tortureFlags{}
	cmd := &cobra.Command{
		Use:   "torture",
		Short: "Test whether leases on this backend keep their promises",
		Long: `Torture has workers compete for names of its own on your backend, injects faults into their requests, and checks
the recorded history: that no two workers held a name at once, that tokens rose, that every loss was reported in time.
It exits with 1 if a promise was broken. Its names are swept later, like any unused name.

Plans: ` + strings.Join(chaos.Names(), ", ") + `.
--plan is one of these, a file with a plan in JSON, or "all", whose plans share the time.`,
		Example: `  leasing-dev torture --for 2s --plan lost-replies --history run.json && leasing-dev torture --verify run.json
  leasing-dev torture --for 1s --processes --html timeline.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.verify != "" {
				return a.verify(f.verify)
			}
			return a.torture(cmd.Context(), f)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.plan, "plan", "flaky-network", "plan of the faults")
	flags.DurationVar(&f.For, "for", 10*time.Second, "total time of the run")
	flags.Uint64Var(&f.Seed, "seed", 0, "seed of the random choices; the order of events still differs from run to run (default random)")
	flags.IntVar(&f.Workers, "workers", 8, "number of competing workers")
	flags.IntVar(&f.Names, "names", 4, "number of names")
	flags.DurationVar(&f.TTL, "ttl", 0, "TTL of the leases (default 2s, or the backend's minimum)")
	flags.Float64Var(&f.Intensity, "intensity", 1, "load of the workers, as a factor")
	flags.IntVar(&f.Operations, "operations", 0, "end after this number of requests in total, if that is sooner (default no limit)")
	flags.DurationVar(&f.Patience, "patience", 5*time.Second, "delay allowed for an event that is due at once: raise it on a busy machine")
	flags.BoolVar(&f.processes, "processes", false, "make each worker a process; some are stopped, some killed")
	flags.StringVar(&f.html, "html", "", "`file` for the timeline; with --plan all a file for each plan")
	flags.StringVar(&f.history, "history", "", "`file` for the recorded history, as JSON; with --plan all a file for each plan")
	flags.StringVar(&f.verify, "verify", "", "only check the history that was recorded in a `file`")
	return cmd
}

func (a *app) torture(ctx context.Context, f *tortureFlags) error {
	where, err := a.backendURL()
	if err != nil {
		return err
	}
	f.Seed = cmp.Or(f.Seed, uint64(rand.Uint32())+1)
	plans, err := readPlans(f.plan, f.Seed)
	if err != nil {
		return err
	}
	f.Open = func(ctx context.Context) (leasing.Provider, error) { return provider(ctx, where) }
	f.Votes = strings.Contains(where, "mode=redlock")
	f.For, f.Operations = f.For/time.Duration(len(plans)), (f.Operations+len(plans)-1)/len(plans)
	if f.processes {
		program, err := os.Executable()
		if err != nil {
			return err
		}
		f.Process = func() *exec.Cmd {
			cmd := exec.Command(program) //nolint:noctx // the run ends the process itself
			cmd.Env = append(os.Environ(), workerVariable+"="+where)
			return cmd
		}
	}
	for _, plan := range plans { // a bad path fails before the run, not after it
		nothing := func(io.Writer) error { return nil }
		if err := f.write(plan, nothing, nothing); err != nil {
			return err
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	var broken error
	for _, plan := range plans {
		f.Plan, f.Progress = plan, a.progress(plan.Name)
		f.Command = f.repeatCommand()
		report, err := torture.Run(ctx, f.Options)
		if err != nil {
			return errors.Join(broken, err)
		}
		if err := a.verdict(report); errors.Is(err, errPromiseBroken) {
			broken = err
		} else if err != nil {
			return err
		}
		if err := f.write(plan, report.WriteHTML, report.WriteHistory); err != nil {
			return errors.Join(broken, err)
		}
		f.Seed++ // with the same seed, the same workers would be killed under each plan
	}
	return broken
}

// readPlans returns one ready-made plan, all ready-made plans, or the plan in a file.
func readPlans(name string, seed uint64) (list []chaos.Plan, err error) {
	names := []string{name}
	if name == everyPlan {
		names = chaos.Names()
	}
	for i, name := range names {
		plan, err := chaos.Named(name, seed+uint64(i))
		if err != nil {
			text, noFile := os.ReadFile(name)
			if noFile != nil {
				return nil, fmt.Errorf("--plan: %w, or a file: %w", err, noFile)
			}
			if plan, err = chaos.ParsePlan(text); err != nil {
				return nil, fmt.Errorf("--plan %s: %w", name, err)
			}
		}
		list = append(list, plan)
	}
	return list, nil
}

// repeatCommand returns the command line that repeats the run of one plan, without the URL.
func (f *tortureFlags) repeatCommand() string {
	plan := f.plan
	if plan == everyPlan {
		plan = f.Plan.Name
	}
	return fmt.Sprintf("leasing-dev torture --plan %s --for %v --seed %d --workers %d --names %d --ttl %v --intensity %v --operations %d --processes=%v",
		plan, f.For, f.Seed, f.Workers, f.Names, f.TTL, f.Intensity, f.Operations, f.processes)
}

// progress prints the progress of a run from time to time.
func (a *app) progress(plan string) func(torture.Progress) {
	var next time.Duration
	return func(p torture.Progress) {
		if p.Phase == "running" && p.Elapsed >= next {
			next = p.Elapsed + max(time.Second, p.For/10)
			fmt.Fprintf(a.err, "leasing-dev: %s: %3.0fs of %.0fs, %d leases, %d lost, %d faults, %d requests\n", plan, p.Elapsed.Seconds(), p.For.Seconds(), p.Grants, p.Losses, p.Faults, p.Operations)
		}
	}
}

// verdict prints a report. It returns errPromiseBroken if a promise was broken.
func (a *app) verdict(r *torture.Report) (err error) {
	if a.output == "json" {
		err = providerkit.WriteJSON(a.out, map[string]any{
			"provider": r.Provider, "plan": r.Plan.Name, "seed": r.Seed, "requests": r.Requests, "grants": r.Grants,
			"verdict": r.Verdict(), "violations": r.Violations, "undecided": r.Undecided, "again": r.Command,
		})
	} else {
		_, err = fmt.Fprintln(a.out, r)
	}
	if err == nil && !r.OK() {
		return errPromiseBroken
	}
	return err
}

// verify checks a history that was saved.
func (a *app) verify(path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // the file was only read
	report, err := torture.Verify(file)
	if err != nil {
		return err
	}
	return a.verdict(report)
}

// write writes the requested files of one plan's run.
func (f *tortureFlags) write(plan chaos.Plan, html, history func(io.Writer) error) error {
	for _, w := range []struct {
		path string
		text func(io.Writer) error
	}{{f.html, html}, {f.history, history}} {
		if w.path == "" {
			continue
		}
		if f.plan == everyPlan {
			extension := filepath.Ext(w.path)
			w.path = strings.TrimSuffix(w.path, extension) + "-" + plan.Name + extension
		}
		file, err := os.Create(w.path)
		if err != nil {
			return err
		}
		if err := errors.Join(w.text(file), file.Close()); err != nil {
			return err
		}
	}
	return nil
}
