// Command scenarios runs samples as several processes, kills and pauses some of them, and checks that the promises held.
//
//	go run -C integration ./scenarios daily                                 # on a temporary SQLite file
//	go run -C integration ./scenarios daily -url redis://127.0.0.1:6379/0   # or postgres://..., sqlite:///path
//	go run -C integration ./scenarios all
//
// The code here directs the processes. Their programs are in module samples, and are written like applications. The comment at
// the top of each scenario says how to read its output. On PostgreSQL and SQLite the data is kept beside the leases, and on other
// backends in a temporary SQLite file.
//
// The exit code is 0 only if every check has passed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/distributedleasing/leasing/integration/scenarios/runner"
)

// classic are the scenarios that "all" runs.
var classic = []runner.Scenario{daily, fanout, migrate, reply, throttle}

// scenarios are all scenarios.
var scenarios = append(classic[:len(classic):len(classic)], election, sequenceScenario, agents)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "scenarios:", err)
		os.Exit(1)
	}
}

// run runs the scenarios that the command line names, with samples that it builds.
func run(ctx context.Context, args []string, out io.Writer) (err error) {
	chosen, url, err := parse(args)
	if err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "leasing-samples-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(folder)) }()
	if err := runner.Build(ctx, folder, chosen[0].Sample); err != nil {
		return err
	}
	for _, s := range chosen {
		if len(chosen) > 1 {
			_, _ = fmt.Fprintln(out, "==", s.Name)
		}
		if err := runOne(ctx, folder, s, url, out); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
	}
	return nil
}

// runOne runs a scenario with the samples of a folder.
func runOne(ctx context.Context, folder string, s runner.Scenario, url string, out io.Writer) error {
	if s.Name == agents.Name {
		return runAgents(ctx, folder, url, out)
	}
	return runner.Run(ctx, folder, s, url, out)
}

// parse reads a command line.
func parse(args []string) (chosen []runner.Scenario, url string, err error) {
	flags := flag.NewFlagSet("scenarios", flag.ContinueOnError)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "usage: scenarios NAME|all [-url URL]")
		for _, s := range scenarios {
			_, _ = fmt.Fprintf(flags.Output(), "  %-9s %s\n", s.Name, s.About)
		}
		flags.PrintDefaults()
	}
	flags.StringVar(&url, "url", "", "where the leases are: redis://..., postgres://..., sqlite:///path, ... (default: a temporary SQLite file)")
	if len(args) == 0 {
		flags.Usage()
		return nil, "", flag.ErrHelp
	}
	if err := flags.Parse(args[1:]); err != nil {
		return nil, "", err
	}
	for _, s := range scenarios {
		if args[0] == s.Name {
			chosen = []runner.Scenario{s}
		}
	}
	if args[0] == "all" {
		chosen = classic
	}
	switch {
	case flags.NArg() > 0:
		return nil, "", fmt.Errorf("no argument %q is known", flags.Arg(0))
	case chosen == nil:
		flags.Usage()
		return nil, "", fmt.Errorf("there is no scenario %q", args[0])
	}
	return chosen, url, nil
}
