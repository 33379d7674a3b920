// Command worker is a process that competes with others for a lease, works while
// it has it, and takes over when its holder stops. It is one program for every
// backend: a URL or a file says which.
//
//	go run ./worker -provider 'sqlite://worker.db?migrate=true'
//	go run ./worker -provider 'redis://127.0.0.1:6379'
//	go run ./worker -config worker/configs/blob.json
//
// Start it several times, on one machine or on many. One of them works, item by
// item, and renews its lease; the others show who holds it: owner, fencing token,
// metadata, and how long the lease has to run where the backend tells. Stop the
// holder with Ctrl-C, and it gives the lease up: another takes over at once. Kill
// it, and another takes over when the lease has run out.
//
// With -ledger each item is a row in an SQLite file that all of them can reach.
// The file checks the fencing token, so a holder that was paused for too long
// can't write after its successor has.
//
// With -measure 100 it prints how long acquire, renew and release take from where it
// runs. With -demo it starts three of itself and does that to them: see README.md.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// urlVariable is read where no flag says which backend: a command line can be
// read by everyone on the machine, and the URL may hold a password.
const urlVariable = "LEASING_PROVIDER"

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

// run is main: it returns the exit code.
func run(args []string, out io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop) // a second Ctrl-C ends the process at once
	s, err := settingsOf(args, os.LookupEnv)
	if err == nil {
		err = do(ctx, s, out)
	}
	switch {
	case err == nil:
		return 0
	case err == flag.ErrHelp: //nolint:errorlint // as package flag returns it
		return 2
	}
	fmt.Fprintln(os.Stderr, "worker:", err)
	return 1
}

// do does what the settings say.
func do(ctx context.Context, s settings, out io.Writer) error {
	if s.demo {
		return demo(ctx, s, out)
	}
	if s.measure > 0 {
		return measure(ctx, s, out)
	}
	print := textTo(out)
	if s.output == outputJSON {
		print = jsonTo(out)
	}
	if s.stdin {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(ctx)
		defer cancel()
		go func() { // ends with the process
			_, _ = io.Copy(io.Discard, os.Stdin)
			cancel()
		}()
	}
	return work(ctx, s, print)
}
