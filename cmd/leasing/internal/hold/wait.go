package hold

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/supervise"
)

// Wait is the command that waits until a name is free.
func Wait(a *cli.App) *cobra.Command {
	limit := time.Duration(0)
	cmd := &cobra.Command{
		Use:   "wait NAME",
		Short: "Wait until a name is free",
		Long: `Wait ends when the name is free, and does not take the name: another process may do so a moment later. To hold the name
use "leasing run --wait". Wait exits with 75 if the name is still held after the time of --for.`,
		Example: `  leasing wait deploy/web
  leasing wait --for 10m deploy/web && echo free`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			signals := supervise.NewSignals()
			signals.Catch() // by default a signal does not end the first process of a container
			return signals.CancelOnSignal(cmd.Context(), func(ctx context.Context) error {
				return a.Using(ctx, func(ctx context.Context, b *cli.Backend) error { return wait(ctx, a, b, args[0], cli.After(limit)) })
			})
		},
	}
	cmd.Flags().DurationVar(&limit, "for", 0, "give up after this time (default never)")
	return cmd
}

// maxPoll is the longest pause between two polls, and so the longest delay until a release is noticed.
const maxPoll = 500 * time.Millisecond

// wait polls the name. Once the backend has answered, an outage of the backend does not end the wait.
func wait(ctx context.Context, a *cli.App, b *cli.Backend, name string, over <-chan time.Time) error {
	if err := checkNested(ctx, b.Manager, name); err != nil {
		return err
	}
	for answered := false; ; answered = true {
		r, err := b.Inspect(ctx, name)
		if err == nil && !r.Held || err != nil && !(answered && cli.IsTemporary(err)) {
			return err
		}
		pause := maxPoll
		if err != nil {
			a.Warn("%s", output.OneLine(err))
		} else if left, known := r.Remaining(); known {
			pause = min(pause, left+time.Millisecond)
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-over:
			if err == nil {
				err = &exit.Error{Code: exit.Busy, Err: fmt.Errorf("%s is still held", name)}
			}
			return err
		}
	}
}
