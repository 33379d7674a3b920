//go:build unix

// Command election shows a leader election under attack. It needs no server:
//
//	go run ./election
//
// Three processes of this program compete for one lease in an SQLite file.
// Whoever has it leads, and writes rows into a ledger in the same database,
// each write guarded by its fencing token. One after the other,
//
//   - the first leader is killed (SIGKILL): another takes over when the lease
//     has run out;
//   - the second is paused past its TTL (SIGSTOP) and woken (SIGCONT): it finds
//     itself no longer trusted, and a write it still sends is refused;
//   - the third is asked to stop (SIGTERM): it gives the lease up, and another
//     takes over at once.
//
// The timeline shows who leads, with which token, and for how long it can
// still trust its lease. At the end stand the take-over times and what was
// checked. The exit code is 0 only if every check has passed.
//
// With -backend postgres the same runs on the PostgreSQL server whose URL is
// in LEASING_TEST_POSTGRES, in a schema of its own that is dropped at the end.
// With -backend redis, or redlock, the lease is in Redis, at the URL in
// LEASING_TEST_REDIS or LEASING_TEST_REDLOCK, and the ledger in an SQLite file.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

const (
	// leaseName is what the processes compete for.
	leaseName = "demo/leader"
	// ttl is short, so that one needn't wait long for a dead leader's lease.
	ttl = 3 * time.Second
	// writeEvery is the pace of a leader's work.
	writeEvery = 400 * time.Millisecond
	// showtime bounds the whole run.
	showtime = 40 * time.Second
)

func main() {
	if config := os.Getenv(workerVariable); config != "" {
		os.Exit(workerMain(config))
	}
	runtime.LockOSThread() // a worker is an orphan when the thread that started it ends: golang.org/issue/27505
	os.Exit(demoMain(os.Args[1:], os.Stdout))
}

func demoMain(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("election", flag.ExitOnError)
	backend := flags.String("backend", "sqlite", "where the lease is: sqlite, postgres, redis or redlock")
	_ = flags.Parse(args) // exits on errors

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	ctx, cancel := context.WithTimeoutCause(ctx, showtime, fmt.Errorf("the demo took longer than %v", showtime))
	defer cancel()
	if err := demo(ctx, *backend, out); err != nil {
		fmt.Fprintln(os.Stderr, "election:", err)
		return 1
	}
	return 0
}

// demo sets the stage, plays, and clears it away.
func demo(ctx context.Context, backend string, out io.Writer) (err error) {
	place, clear, err := setUp(ctx, backend)
	if err != nil {
		return err
	}
	defer func() {
		if cleared := clear(); err == nil {
			err = cleared
		}
	}()
	s, err := newStory(ctx, place, out)
	if err != nil {
		return err
	}
	defer s.end()
	return s.play(ctx)
}
