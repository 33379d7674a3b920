// Command sequence shows what becomes of the numbers of a ledger while its writers are killed,
// paused and cut off.
//
//	go run ./sequence                            # on a temporary SQLite file
//	go run ./sequence -url postgres://...        # in a schema of its own, which it removes
//
// Eight processes write transfers into a ledger, each under the next number of one stream. Trouble
// befalls each of them once, on one of its numbers:
//
//   - three are killed: with nothing saved, with half of their work saved, with all of it saved;
//   - three are paused past their lease, and commit when they wake up: to a gap, to a gap that was sealed
//     meanwhile, to a number whose work was recovered;
//   - one is cut off from the database, keeps its result in a journal, and comes back with it;
//   - one gives its number up.
//
// A cleaner closes what has run out. Three readers follow the ledger up to its seal.
//
// Look at the table in the end: how each lease ended that has run out, and where its work is. Look
// at work.go for what an application would have.
//
// The exit code is 0 only if every number is accounted for, the readers have seen the same, and no late
// commit got in.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// leaseFor is short, so that one need not wait long for the leases of the dead.
const leaseFor = 3 * time.Second

var scenario = runner.Scenario{
	Name: "sequence", About: "a ledger in one order, whose writers are killed, paused and cut off",
	TTL: leaseFor, Control: control, Work: work,
}

func main() {
	runner.WorkerMain(scenario)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "sequence:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("sequence", flag.ContinueOnError)
	url := flags.String("url", "", "where the ledger is: postgres://... or sqlite:///path (default: a temporary SQLite file)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("there is no argument %q", flags.Arg(0))
	}
	return runner.Run(ctx, scenario, *url, out)
}
