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
)

func main() {
	if isGuard() {
		guard()
	}
	logging.Disable() // each failed attempt to connect is a line otherwise
	problems := newLines(os.Stderr)
	code := execute(os.Args[1:], streams{os.Stdin, os.Stdout, problems})
	problems.flush()
	os.Exit(code)
}
