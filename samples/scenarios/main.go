// Command scenarios runs the classic uses of a lease. Each starts workers,
// most of them as processes, kills and pauses some, and checks that the promise held.
//
//	go run ./scenarios daily                                 # on a temporary SQLite file
//	go run ./scenarios daily -url redis://127.0.0.1:6379/0   # or postgres://..., sqlite:///path
//	go run ./scenarios all
//
// Each scenario is one file, and begins with a description of its output. The code of its
// workers is like that of your application; the rest controls the workers. Data is
// kept beside the leases in PostgreSQL and SQLite, and elsewhere in a temporary
// SQLite file.
//
// The exit code is 0 only if every check has passed.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"

	"github.com/distributedleasing/leasing/samples/internal/runner"
)

var scenarios = []runner.Scenario{daily, fanout, migrate, reply, throttle}

func main() { runner.Main("scenarios", run, append(scenarios, election)...) }

// run runs what the command line names.
func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("scenarios", flag.ContinueOnError)
	flags.Usage = func() {
		_, _ = fmt.Fprintln(flags.Output(), "usage: scenarios NAME|all [-url URL]")
		for _, s := range append(scenarios, election) {
			_, _ = fmt.Fprintf(flags.Output(), "  %-9s %s\n", s.Name, s.About)
		}
		flags.PrintDefaults()
	}
	url := flags.String("url", "", "where the leases are: redis://..., postgres://..., sqlite:///path, ... (default: a temporary SQLite file)")
	if len(args) == 0 {
		flags.Usage()
		return flag.ErrHelp
	}
	if err := flags.Parse(args[1:]); err != nil {
		return err
	}
	ran := 0
	for _, s := range append(scenarios, election) {
		if args[0] != s.Name && (args[0] != "all" || s.Name == election.Name) {
			continue
		}
		if args[0] == "all" {
			_, _ = fmt.Fprintln(out, "==", s.Name)
		}
		if err := runner.Run(ctx, s, *url, out); err != nil {
			return fmt.Errorf("%s: %w", s.Name, err)
		}
		ran++
	}
	if ran == 0 || flags.NArg() > 0 {
		flags.Usage()
		return fmt.Errorf("there is no scenario %q", args[0])
	}
	return nil
}
