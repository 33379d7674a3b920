package runner

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

// Main is the main function of a program: it runs until it is done or interrupted, and in a worker's
// process it does the worker's work.
func Main(name string, run func(ctx context.Context, args []string, out io.Writer) error, scenarios ...Scenario) {
	WorkerMain(scenarios...)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// URL returns the value of the flag -url of a command line, which has no other arguments.
func URL(name string, args []string, usage string) (string, error) {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	url := flags.String("url", "", usage)
	if err := flags.Parse(args); err != nil {
		return "", err
	}
	if flags.NArg() > 0 {
		return "", fmt.Errorf("there is no argument %q", flags.Arg(0))
	}
	return *url, nil
}
