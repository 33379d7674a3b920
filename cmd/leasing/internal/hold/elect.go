package hold

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// Elect is the command that runs a command in each term in which this process is the leader.
func Elect(a *cli.App) *cobra.Command {
	f := &runFlags{}
	var onLost string
	pause := time.Second
	cmd := &cobra.Command{
		Use:   "elect [flags] NAME -- COMMAND [ARGUMENT...]",
		Short: "Run a command whenever this process is the leader",
		Long: `Elect waits for the lease NAME, runs the command as "leasing run" does, and waits for the lease again, until TERM, INT,
HUP or QUIT. These signals are passed on to the command, and elect ends after the command. A leader whose command ends
by itself steps down, and is a candidate again after a pause. The exit codes 125, 126 and 127, which mean that the command
can't run, end elect.

The command of --on-lost runs with /bin/sh at the end of each term, in the same environment, with the exit code of the term in
$LEASING_EXIT: 124 if the lease was lost. The next leader may be at work by then. The command does not run if leasing is killed.`,
		Example: `  leasing elect --terms 1 --on-lost 'echo stepped down' scheduler -- echo leading`,
	}
	terms := 0
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return elect(cmd.Context(), a, f, args[0], command(args[1:]), onLost, pause, terms)
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringVar(&onLost, "on-lost", "", "shell `command` for the end of a term")
	flags.DurationVar(&pause, "pause", pause, "time from the end of a term to the next candidacy, so that another candidate can lead")
	flags.IntVar(&terms, "terms", 0, "end after this number of terms (default no limit)")
	return cmd
}

func elect(ctx context.Context, a *cli.App, f *runFlags, name string, argv []string, onLost string, pause time.Duration, terms int) error {
	w, err := newRunner(ctx, a, f, argv, -1)
	if err != nil {
		return err
	}
	defer w.finish()
	for term := 1; ; term++ {
		lease, err := w.acquire(ctx, name, -1)
		if err != nil {
			return err
		}
		code, problem := w.Command.Run(lease, w.environ(lease))
		w.release(lease)
		if problem != nil {
			a.Warn("%s", output.OneLine(problem))
		}
		w.runOnLost(lease, onLost, code)
		if ends, code := w.candidacyEnd(code, term == terms); ends {
			if code == 0 {
				return nil
			}
			return &exit.Error{Code: code}
		}
		if w.Pause(pause); w.EndedBy != nil {
			return &exit.Error{Code: exit.Signal + int(w.EndedBy.(syscall.Signal))}
		}
	}
}

// candidacyEnd reports whether the candidacy ends after a term whose command exited with code, and returns the
// candidacy's own exit code. To a service manager 0 means that the work is done, so only the last term ends the candidacy
// with 0.
func (w *runner) candidacyEnd(code int, last bool) (ends bool, exitCode int) {
	switch {
	case w.EndedBy != nil:
		return true, exit.Signal + int(w.EndedBy.(syscall.Signal))
	case w.ProcessesLeft: // processes that the command has left running prevent another term
		return true, exit.Failed
	}
	return last || code == exit.NotExecutable || code == exit.NotFound || code == exit.Failed, code
}

// hookTimeout bounds the run time of the --on-lost command.
const hookTimeout = time.Minute

// runOnLost runs the command of --on-lost.
func (w *runner) runOnLost(lease *leasing.Lease, command string, code int) {
	if strings.TrimSpace(command) == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), hookTimeout)
	defer cancel()
	hook := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	hook.Env = append(w.environ(lease), fmt.Sprintf("LEASING_EXIT=%d", code))
	hook.Stdout, hook.Stderr = os.Stdout, os.Stderr
	if err := hook.Run(); err != nil {
		w.app.Warn("--on-lost: %v", err)
	}
}
