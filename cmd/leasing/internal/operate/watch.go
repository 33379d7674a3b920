package operate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// Watch is the command that shows leases as they change hands.
func Watch(a *cli.App) *cobra.Command {
	every, duration := time.Second, time.Duration(0)
	cmd := &cobra.Command{
		Use:   "watch [PREFIX]",
		Short: "Show leases as they change hands",
		Long: `Watch shows a table of the leases that are held, and keeps the table up to date. If standard output is no
terminal, or with -o json, it prints a line for each change: a lease that was taken, broken or ended.
A lease that begins and ends between two polls is not shown. Watch ends with Ctrl-C.`,
		Example: `  leasing watch --for 100ms
  leasing watch -o json --for 100ms deploy/`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if every <= 0 {
				return fmt.Errorf("--every %v: want more than 0", every)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			return a.Using(ctx, func(ctx context.Context, b *cli.Backend) error {
				return watch(ctx, a, b, firstArg(args), every, cli.After(duration))
			})
		},
	}
	cmd.Flags().DurationVar(&every, "every", every, "time between two polls")
	cmd.Flags().DurationVar(&duration, "for", 0, "end after this time (default never)")
	return cmd
}

// change is an event that watch prints.
type change struct {
	Time   time.Time `json:"time"` // of this machine
	Change string    `json:"change"`
	output.Record
}

func watch(ctx context.Context, a *cli.App, b *cli.Backend, prefix string, every time.Duration, over <-chan time.Time) error {
	live := a.Format == "table" && output.IsTerminal(a.Out)
	var held map[leasing.Fingerprint]output.Record // nil before the first poll
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		records, err := b.Records(ctx, prefix, false)
		switch {
		case ctx.Err() != nil:
			return nil // the usual end of a watch
		case err != nil && held == nil:
			return err
		case err != nil:
			a.Warn("%s", output.OneLine(err))
		case live:
			fmt.Fprintf(a.Out, "\x1b[H\x1b[2J%s  %d held\n\n", time.Now().Format(time.TimeOnly), len(records))
			held, err = map[leasing.Fingerprint]output.Record{}, a.Records(records)
		default:
			held, err = changes(a, held, records)
		}
		if err != nil && errors.Is(err, syscall.EPIPE) {
			return err
		}
		select {
		case <-ticker.C:
		case <-over:
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// changes prints the changes since the last poll, and returns the leases that are held now.
func changes(a *cli.App, before map[leasing.Fingerprint]output.Record, records []output.Record) (map[leasing.Fingerprint]output.Record, error) {
	now := map[leasing.Fingerprint]output.Record{}
	var all []change
	for _, s := range records {
		now[s.Fingerprint] = s
		if old, known := before[s.Fingerprint]; !known {
			all = append(all, change{time.Now().UTC(), "taken", s})
		} else if s.Breaking && !old.Breaking {
			all = append(all, change{time.Now().UTC(), "broken", s})
		}
	}
	for claim, s := range before {
		if _, still := now[claim]; !still {
			all = append(all, change{time.Now().UTC(), "ended", s})
		}
	}
	for _, c := range all {
		var err error
		if a.Format == "json" {
			err = a.JSON(c)
		} else {
			_, err = fmt.Fprintln(a.Out, output.Inert(c.Time.Format(time.RFC3339)+" "+c.Change+" "+strconv.Quote(c.Name)+" by "+c.Holder()+", token "+strconv.FormatInt(c.Token, 10)))
		}
		if err != nil {
			return now, err
		}
	}
	return now, nil
}
