// Package hold has the commands that acquire a lease, or wait for a free name.
package hold

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/supervise"
)

// runFlags are the flags of run and elect.
type runFlags struct {
	ttl, grace, atLeast time.Duration
	wait                string
	busyCode            int
	onLoss              supervise.OnLoss
}

// add adds the flags to a command, whose arguments are a name and another command.
func (f *runFlags) add(cmd *cobra.Command) {
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) < 2 {
			return fmt.Errorf(`want NAME -- COMMAND; see "%s --help"`, cmd.CommandPath())
		}
		return nil
	}
	f.onLoss = supervise.LossTerm
	flags := cmd.Flags()
	flags.SetInterspersed(false)
	flags.DurationVar(&f.ttl, "ttl", 30*time.Second, "time for which the name stays taken if this machine dies")
	flags.Var(&f.onLoss, "on-loss", "action on the command when the lease is lost")
	flags.DurationVar(&f.grace, "grace", 0, "time from TERM to KILL; both are sent before the lease has run out (default 5s, at most a sixth of the TTL)")
}

// Run is the command that runs a command under a lease.
func Run(a *cli.App) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:   "run [flags] NAME -- COMMAND [ARGUMENT...]",
		Short: "Run a command while holding a lease",
		Long: `Run takes the lease NAME, runs the command while it holds the lease, and releases the lease when the command
has ended. If another holder has the name, run exits with 75 (see --wait). With --wait it also waits
for a backend that can't be reached, and exits with 125 if the backend does not come back in time.

If the lease can't be renewed, the command and all its descendants get TERM while the lease is still
valid, and KILL before another holder can have the name. They also get KILL if leasing itself is killed
or stopped. When the command has ended, its descendants have a second to finish, and another second
after TERM. On Linux no descendant escapes, not even a daemon.

Signals are passed on to the command and its descendants. The exit code is the command's, and $LEASING_NAME,
$LEASING_TOKEN (the fencing token), $LEASING_ID and $LEASING_OWNER are in its environment.`,
		Example: `  leasing run nightly-report -- echo 'the only one'
  leasing run --wait 1m --ttl 10s deploy/web -- sh -c 'echo "token $LEASING_TOKEN"'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return run(cmd.Context(), a, f, args[0], command(args[1:]))
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&f.wait, "wait", "0s", "time to wait if another holder has the name or the backend can't be reached, or forever")
	flags.DurationVar(&f.atLeast, "at-least", 0, "keep the name taken for this time, even if the command or leasing ends sooner, so that a machine with a slower clock finds the name taken")
	flags.IntVarP(&f.busyCode, "busy-code", "E", exit.Busy, "exit code if another holder has the name; 0 also prints nothing")
	return cmd
}

// command returns the arguments after NAME. The flags of leasing end at NAME, and a "--" after
// NAME does not belong to the command.
func command(args []string) []string {
	if len(args) > 1 && args[0] == "--" {
		return args[1:]
	}
	return args
}

// run runs one command under one lease.
func run(ctx context.Context, a *cli.App, f *runFlags, name string, argv []string) error {
	limit, err := f.waitLimit()
	if err != nil {
		return err
	}
	begin := time.Now()
	w, err := newRunner(ctx, a, f, argv, limit)
	if err != nil {
		return err
	}
	defer w.finish()
	limit = max(limit-time.Since(begin), min(limit, time.Second)) // opening the backend does not use up the limit
	lease, err := w.acquire(ctx, name, limit)
	switch {
	case errors.Is(err, leasing.ErrHeld) && f.busyCode == 0: // no output, because cron mails any output
		return nil
	case errors.Is(err, leasing.ErrHeld):
		return &exit.Error{Code: f.busyCode, Err: err}
	}
	if err != nil {
		return err
	}
	code, err := w.Command.Run(lease, w.environ(lease))
	w.release(lease)
	if code == 0 && err == nil {
		return nil
	}
	return &exit.Error{Code: code, Err: err}
}

// waitLimit returns the limit of the wait: 0 for a single attempt, and negative for no limit.
func (f *runFlags) waitLimit() (time.Duration, error) {
	if f.wait == "forever" {
		return -1, nil
	}
	limit, err := time.ParseDuration(f.wait)
	if err != nil || limit < 0 {
		return 0, fmt.Errorf(`--wait %q: want a time such as 30s, or forever`, f.wait)
	}
	return limit, nil
}
