package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"
)

func (a *app) inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show who holds a name",
		Long:  "Inspect shows what the backend knows of a name. It exits with 1 if nobody holds it.",
		Example: `  leasing inspect deploy/web
  leasing inspect -o json deploy/web`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.using(cmd.Context(), func(ctx context.Context, b *backend) error {
				r, err := b.Inspect(ctx, args[0])
				if err != nil {
					return err
				}
				if err := a.detail(show(r)); err != nil {
					return err
				}
				if !r.Held {
					return &exitError{code: exitNo}
				}
				return nil
			})
		},
	}
}

// detail prints all of one record.
func (a *app) detail(s shown) error {
	if a.output == "json" {
		return a.json(s)
	}
	rows := [][]string{{"name", s.Name}, {"state", s.state()}, {"token", strconv.FormatInt(s.Token, 10)}}
	add := func(key, value string) {
		if value != "" {
			rows = append(rows, []string{key, value})
		}
	}
	if s.Held {
		add("owner", s.holder())
		add("id", s.ID)
		if !s.AcquiredAt.IsZero() {
			add("since", s.AcquiredAt.UTC().Format(time.RFC3339))
		}
		add("left", s.left())
		add("broken by", s.BrokenBy)
		add("reason", s.BreakReason)
		add("metadata", s.metadata())
	}
	return a.table(rows)
}
