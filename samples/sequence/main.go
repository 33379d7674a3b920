// Command sequence shows the fate of the numbers of a ledger while its writers are killed,
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
// Look at the table in the end: it shows the outcome of each lease that has run out, and the place of
// its work. Look at work.go for code like that of an application.
//
// The exit code is 0 only if every number is accounted for, the readers have seen the same, and no late
// commit got in.
package main

import (
	"context"
	"io"
	"time"

	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// leaseFor is short, so that one need not wait long for the leases of the dead.
const leaseFor = 3 * time.Second

var scenario = runner.Scenario{
	Name: "sequence", TTL: leaseFor, Control: control, Work: work,
}

func main() { runner.Main("sequence", run, scenario) }

func run(ctx context.Context, args []string, out io.Writer) error {
	url, err := runner.URL("sequence", args, "where the ledger is: postgres://... or sqlite:///path (default: a temporary SQLite file)")
	if err != nil {
		return err
	}
	return runner.Run(ctx, scenario, url, out)
}
