package operate

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// History is the command that shows the history of a name.
func History(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:   "history NAME",
		Short: "Show the history of a name",
		Long: `History shows the holders of a name, oldest first, and the breaks of its leases, with author and reason. Only SQL backends
keep a history, if the URL has history=true, as with --local.`,
		Example: `  leasing history deploy/web
  leasing history -o json deploy/web`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Using(cmd.Context(), func(ctx context.Context, b *cli.Backend) error { return history(ctx, a, b, args[0]) })
		},
	}
}

func history(ctx context.Context, a *cli.App, b *cli.Backend, name string) error {
	entries := []entry{}
	for e, err := range b.History(ctx, name, leasing.HistoryOptions{}) {
		if errors.Is(err, leasing.ErrUnsupported) {
			return fmt.Errorf("%w: the backend keeps no history; SQL backends keep one with history=true in the URL", leasing.ErrUnsupported)
		}
		if err != nil {
			return err
		}
		entries = append(entries, entry{e.Time, string(e.Kind), e.Fingerprint, e.Owner, e.Token, e.Actor, e.Reason})
	}
	return output.All(&a.Printer, []string{"TIME", "WHAT", "OWNER", "TOKEN", "BY", "REASON"}, entries, func(e entry) []string {
		return []string{e.Time.Format(time.RFC3339), e.What, e.Owner, strconv.FormatInt(e.Token, 10), e.Actor, e.Reason}
	})
}

// entry is a HistoryEntry as JSON.
type entry struct {
	Time        time.Time           `json:"time"`
	What        string              `json:"what"`
	Fingerprint leasing.Fingerprint `json:"fingerprint"`
	Owner       string              `json:"owner"`
	Token       int64               `json:"token"`
	Actor       string              `json:"actor,omitempty"`
	Reason      string              `json:"reason,omitempty"`
}
