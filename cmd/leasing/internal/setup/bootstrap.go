package setup

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	redislease "github.com/distributedleasing/leasing/providers/redis"
)

// Bootstrap is the command that lets the servers of a new Redlock vote.
func Bootstrap(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "bootstrap",
		Short: "Let the servers of a new Redlock vote at once",
		Long: `Bootstrap lets the servers of a new Redlock vote at once. Otherwise they cast no vote until every lease that they
might have lost has ended, a minute by default. All servers have to answer. Bootstrap fails if some of them vote already.

Never run it for servers that have lost their data, as after a restart without persistence: leases that they stored may
still be held, and the names would get second holders.`,
		Example: `  leasing bootstrap --url 'redis://r1,r2,r3/0?mode=redlock'`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.Using(cmd.Context(), func(ctx context.Context, b *cli.Backend) error {
				servers, ok := b.Provider.(*redislease.Provider)
				if !ok || b.Capabilities().Provider != "redlock" {
					return errors.New("bootstrap is for Redlock only: want a URL with mode=redlock")
				}
				if err := servers.Bootstrap(ctx); err != nil {
					return err
				}
				_, err := fmt.Fprintln(a.Out, "all servers vote")
				return err
			})
		},
	}
}
