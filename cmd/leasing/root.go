package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing/open"
)

// Exit codes. A command that `leasing run` started passes its own on.
const (
	exitNo            = 1   // the answer is no: see each command
	exitBusy          = 75  // EX_TEMPFAIL of sysexits.h: another holder has the name
	exitLost          = 124 // as timeout(1): the lease was lost, and the command stopped
	exitFailed        = 125 // as env(1): leasing itself failed
	exitNotExecutable = 126
	exitNotFound      = 127
	exitSignal        = 128 // and the signal's number
)

// exitError ends the program with a code. Without Err nothing is printed.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// streams are the standard ones, or those of a test.
type streams struct {
	in       io.Reader
	out, err io.Writer
}

// app has the state that all commands share: the global flags and the streams.
type app struct {
	streams
	url, config, owner, output string
	local                      bool
	timeout                    time.Duration

	warning sync.Mutex // over warned
	warned  string
}

// execute runs a command line and returns the exit code.
func execute(args []string, s streams) int {
	a := &app{streams: s}
	root := a.root()
	root.SetArgs(args)
	root.SetIn(s.in)
	root.SetOut(s.out)
	root.SetErr(s.err)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return 0
	}
	if text := oneLine(err); text != "" {
		a.warn("%s", text)
	}
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		return exit.code
	}
	return exitFailed
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "leasing",
		Short: "Distributed leases for shells, cron and operators",
		Long: `Leasing runs commands under a lease, and shows and ends leases. A name has at most one lease at a time,
on any number of machines.

The backend is the URL of --url, else of $LEASING_URL, else of "url" in the config file (JSON, by default
leasing/config.json in $XDG_CONFIG_HOME or ~/.config). There is no default. With --local the leases are
those of this user on this machine alone, in the SQLite file leasing/leases.db in $XDG_STATE_HOME or
~/.local/state. A URL begins with
` + open.Schemes(openers...) + `.

Exit codes: 0 done; 1 no; 75 another holder has the name; 124 the lease was lost and the command
was stopped; 125 leasing failed; 126 the command can't be run; 127 the command was not found; 128+n
signal n ended the command; any other: the command's own.`,
		Version:       version(),
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return fmt.Errorf(`%w; see "%s --help"`, err, cmd.CommandPath())
	})
	flags := root.PersistentFlags()
	flags.StringVar(&a.url, "url", "", "`URL` of the backend (default $LEASING_URL)")
	flags.BoolVar(&a.local, "local", false, "leases of this user on this machine alone, in an SQLite file")
	flags.StringVar(&a.config, "config", "", "config `file` (default $LEASING_CONFIG)")
	flags.StringVar(&a.owner, "owner", "", "label of the holder, for people to read (default host/pid/random)")
	flags.StringVarP(&a.output, "output", "o", "table", "output format, table or json")
	flags.DurationVar(&a.timeout, "timeout", 10*time.Second, "time limit of one request to the backend")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		for _, name := range []string{"url", "config"} { // see variable
			if f := flags.Lookup(name); f.Changed && f.Value.String() == "" {
				return fmt.Errorf("--%s is empty", name)
			}
		}
		if a.output != "table" && a.output != "json" {
			return fmt.Errorf("--output %q: want table or json", a.output)
		}
		if a.timeout <= 0 {
			return fmt.Errorf("--timeout %v: want more than 0", a.timeout)
		}
		return nil
	}
	root.AddCommand(a.runCommand(), a.lsCommand(), a.inspectCommand(), a.watchCommand(), a.breakCommand(), a.historyCommand(),
		a.waitCommand(), a.electCommand(), a.doctorCommand(), a.consoleCommand(), a.sqlCommand(),
		a.acquireCommand(), a.releaseCommand(), a.bootstrapCommand(), a.versionCommand(), a.manCommand())
	for _, c := range root.Commands() {
		c.DisableFlagsInUseLine = true
	}
	return root
}

// warn prints a warning for people, but not the same warning twice in a row.
func (a *app) warn(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	a.warning.Lock()
	defer a.warning.Unlock()
	if text != a.warned {
		fmt.Fprintln(a.err, "leasing:", inert(text))
	}
	a.warned = text
}
