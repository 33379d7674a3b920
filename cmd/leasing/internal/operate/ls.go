// Package operate has the commands that show and end leases.
package operate

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
)

// List is the command that lists leases.
func List(a *cli.App) *cobra.Command {
	free := false
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List leases that are held",
		Example: `  leasing ls
  leasing ls --all -o json deploy/`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Using(cmd.Context(), func(ctx context.Context, b *cli.Backend) error {
				records, err := b.Records(ctx, firstArg(args), free)
				if err != nil {
					return err
				}
				return a.Records(records)
			})
		},
	}
	cmd.Flags().BoolVarP(&free, "all", "a", false, "also list free names that the backend remembers")
	return cmd
}

func firstArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
