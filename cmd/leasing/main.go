// Command leasing works with leases from a shell.
//
//	leasing run nightly-report -- ./report.sh   # at most one at a time, on any machine
//	leasing ls                                  # who holds what
//	leasing help
//
// docs/cli.md has the exit codes, the environment, and the promises of the command.
package main

import (
	"os"

	"github.com/redis/go-redis/v9/logging"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/supervise"
)

func main() {
	if supervise.IsGuard() {
		supervise.Guard()
	}
	logging.Disable() // otherwise each failed attempt to connect prints a line
	problems := output.NewLines(os.Stderr)
	code := execute(os.Args[1:], output.Streams{In: os.Stdin, Out: os.Stdout, Err: problems})
	problems.Flush()
	os.Exit(code)
}
