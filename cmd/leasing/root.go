package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/hold"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/operate"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/setup"
	"github.com/distributedleasing/leasing/open"
)

// execute runs a command line and returns the exit code.
func execute(args []string, s output.Streams) int {
	a := &cli.App{Printer: output.Printer{Streams: s}}
	root := rootCommand(a)
	root.SetArgs(args)
	root.SetIn(s.In)
	root.SetOut(s.Out)
	root.SetErr(s.Err)
	err := root.ExecuteContext(context.Background())
	if err == nil {
		return 0
	}
	if text := output.OneLine(err); text != "" {
		a.Warn("%s", text)
	}
	if failure := (*exit.Error)(nil); errors.As(err, &failure) {
		return failure.Code
	}
	return exit.Failed
}

func rootCommand(a *cli.App) *cobra.Command {
	root := &cobra.Command{
		Use:   "leasing",
		Short: "Distributed leases for shells, cron and operators",
		Long: `Leasing runs commands under a lease, and shows and ends leases. A name has at most one lease at a time,
on any number of machines.

The backend is the URL of --url, else of $LEASING_URL, else of "url" in the config file (JSON, by default
leasing/config.json in $XDG_CONFIG_HOME or ~/.config). There is no default. With --local the leases are
those of this user on this machine alone, in the SQLite file leasing/leases.db in $XDG_STATE_HOME or
~/.local/state. A URL begins with
` + open.Schemes(cli.Openers...) + `.

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
	flags.StringVar(&a.URL, "url", "", "`URL` of the backend (default $LEASING_URL)")
	flags.BoolVar(&a.Local, "local", false, "leases of this user on this machine alone, in an SQLite file")
	flags.StringVar(&a.Config, "config", "", "config `file` (default $LEASING_CONFIG)")
	flags.StringVar(&a.Owner, "owner", "", "label of the holder, for people to read (default host/pid/random)")
	flags.StringVarP(&a.Format, "output", "o", "table", "output format, table or json")
	flags.DurationVar(&a.Timeout, "timeout", 10*time.Second, "time limit of one request to the backend")
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		for _, name := range []string{"url", "config"} { // see the function variable in package cli
			if f := flags.Lookup(name); f.Changed && f.Value.String() == "" {
				return fmt.Errorf("--%s is empty", name)
			}
		}
		if a.Format != "table" && a.Format != "json" {
			return fmt.Errorf("--output %q: want table or json", a.Format)
		}
		if a.Timeout <= 0 {
			return fmt.Errorf("--timeout %v: want more than 0", a.Timeout)
		}
		return nil
	}
	root.AddCommand(hold.Run(a), operate.List(a), operate.Inspect(a), operate.Watch(a), operate.Break(a), operate.History(a),
		hold.Wait(a), hold.Elect(a), setup.Doctor(a), operate.Console(a), setup.SQL(a),
		hold.Acquire(a), hold.Release(a), setup.Bootstrap(a), versionCommand(a), manCommand())
	for _, c := range root.Commands() {
		c.DisableFlagsInUseLine = true
	}
	return root
}
