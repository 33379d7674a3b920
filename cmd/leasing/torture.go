package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/open"
)

// workerVariable is the backend's URL, for a worker process.
const workerVariable = "LEASING_TORTURE_URL"

// tortureFlags are those of torture.
type tortureFlags struct {
	torture.Options
	plan, html, history string
	processes           bool
}

func (a *app) tortureCommand() *cobra.Command {
	f := &tortureFlags{}
	cmd := &cobra.Command{
		Use:   "torture",
		Short: "Find out whether leases on this backend keep their promises",
		Long: `Torture has workers compete for names of its own on your backend, injects faults into their requests, and checks
all that they asked and were told: that no two held a name at once, that tokens rose, that every loss was told in time.
It exits with 1 if a promise was broken. What it leaves is swept like any name that nobody uses.

Plans: ` + strings.Join(chaos.Names(), ", ") + `; or a file with one in JSON.`,
		Example: `  leasing torture --for 2s --plan lost-replies
  leasing torture --for 1s --processes --html timeline.html`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.torture(cmd.Context(), f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.plan, "plan", "flaky-network", "what goes wrong")
	flags.DurationVar(&f.For, "for", 10*time.Second, "for how long")
	flags.Uint64Var(&f.Seed, "seed", 0, "decides what is left to chance, but not in which order things happen (default random)")
	flags.IntVar(&f.Workers, "workers", 8, "how many compete")
	flags.IntVar(&f.Names, "names", 4, "for how many names")
	flags.DurationVar(&f.TTL, "ttl", 0, "of the leases (default 2s, or the backend's least)")
	flags.BoolVar(&f.processes, "processes", false, "make each worker a process; some are stopped, some killed")
	flags.StringVar(&f.html, "html", "", "`file` for the timeline")
	flags.StringVar(&f.history, "history", "", "`file` for all that was recorded, as JSON")
	return cmd
}

func (a *app) torture(ctx context.Context, f *tortureFlags) error {
	where, _, err := a.where()
	if err != nil {
		return err
	}
	if f.Seed == 0 {
		f.Seed = uint64(rand.Uint32()) + 1
	}
	if f.Plan, err = plan(f.plan, f.Seed); err != nil {
		return err
	}
	for _, path := range []string{f.html, f.history} { // not only after the run
		if path != "" {
			if err := os.WriteFile(path, nil, 0o644); err != nil {
				return err
			}
		}
	}
	f.Open = func(ctx context.Context) (leasing.Provider, error) { return open.URL(ctx, where, openers...) }
	f.Votes = strings.Contains(where, "mode=redlock")
	f.Command = fmt.Sprintf("leasing torture --plan %s --for %v --seed %d --workers %d --names %d", f.plan, f.For, f.Seed, f.Workers, f.Names)
	if f.processes {
		f.Command += " --processes"
		program, err := os.Executable()
		if err != nil {
			return err
		}
		f.Process = func() *exec.Cmd {
			cmd := exec.Command(program) //nolint:noctx // the run ends it
			cmd.Env = append(os.Environ(), workerVariable+"="+where)
			return cmd
		}
	}
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := torture.Run(ctx, f.Options)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(a.out, report); err != nil {
		return err
	}
	if err := writeTo(f.html, report.WriteHTML); err != nil {
		return err
	}
	if err := writeTo(f.history, report.WriteHistory); err != nil {
		return err
	}
	if !report.OK() {
		return &exitError{code: exitNo}
	}
	return nil
}

// plan is a ready-made one, or one in a file.
func plan(name string, seed uint64) (chaos.Plan, error) {
	ready, err := chaos.Named(name, seed)
	if err == nil {
		return ready, nil
	}
	text, noFile := os.ReadFile(name)
	if noFile != nil {
		return ready, fmt.Errorf("--plan: %w, or a file: %w", err, noFile)
	}
	return chaos.ParsePlan(text)
}

// writeTo writes a file, unless it has no name.
func writeTo(path string, write func(io.Writer) error) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(file); err != nil {
		_ = file.Close()
		return err
	}
	return file.Close()
}
