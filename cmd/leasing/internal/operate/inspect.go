package operate

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// Inspect is the command that shows the record of a name.
func Inspect(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show the holder and the waiters of a name",
		Long: `Inspect shows the backend's record of a name: its holder and, if the backend keeps a queue, its waiters in their order.
It exits with 1 if the name is free.`,
		Example: `  leasing inspect deploy/web
  leasing inspect -o json deploy/web`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Using(cmd.Context(), func(ctx context.Context, b *cli.Backend) error {
				r, err := b.Inspect(ctx, args[0])
				if err != nil {
					return err
				}
				s := output.RecordOf(r)
				s.Waiters, err = waiters(ctx, b, args[0])
				if err := errors.Join(a.Detail(s), err); err != nil {
					return err
				}
				if !r.Held {
					return &exit.Error{Code: exit.No}
				}
				return nil
			})
		},
	}
}

// waiters returns the waiters of a name, in the order in which they are served, if the backend lists waiters.
func waiters(ctx context.Context, b *cli.Backend, name string) (queue []output.Waiter, err error) {
	waiting, err := b.Waiters(ctx, name)
	if errors.Is(err, leasing.ErrUnsupported) {
		return nil, nil
	}
	for _, w := range waiting {
		queue = append(queue, output.Waiter{Owner: w.Owner, Fingerprint: w.Fingerprint, Since: w.Since, Waited: w.Now.Sub(w.Since).Seconds()})
	}
	return queue, err
}
