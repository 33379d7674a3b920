package main

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
)

func (a *app) inspectCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "inspect NAME",
		Short: "Show the holder and the waiters of a name",
		Long: `Inspect shows the backend's record of a name: its holder and, if the backend keeps a queue, its waiters in their order.
It exits with 1 if the name is free.`,
		Example: `  leasing inspect deploy/web
  leasing inspect -o json deploy/web`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.using(cmd.Context(), func(ctx context.Context, b *backend) error {
				r, err := b.Inspect(ctx, args[0])
				if err != nil {
					return err
				}
				s := show(r)
				s.Waiters, err = waiters(ctx, b, args[0])
				if err := errors.Join(a.detail(s), err); err != nil {
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

// waiters returns the waiters of a name, in the order in which they are served, if the backend lists waiters.
func waiters(ctx context.Context, b *backend, name string) (queue []waiter, err error) {
	waiting, err := b.Waiters(ctx, name)
	if errors.Is(err, leasing.ErrUnsupported) {
		return nil, nil
	}
	for _, w := range waiting {
		queue = append(queue, waiter{w.Owner, w.Fingerprint, w.Since, w.Now.Sub(w.Since).Seconds()})
	}
	return queue, err
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
		add("fingerprint", s.Fingerprint.String())
		if !s.AcquiredAt.IsZero() {
			add("since", s.AcquiredAt.UTC().Format(time.RFC3339))
		}
		if !s.RenewedAt.IsZero() {
			add("renewed", s.RenewedAt.UTC().Format(time.RFC3339))
		}
		add("left", s.left())
		add("broken by", s.BrokenBy)
		add("reason", s.BreakReason)
		add("metadata", s.metadata())
	}
	for i, w := range s.Waiters {
		add("waiter "+strconv.Itoa(i+1), w.Owner+", for "+rounded(time.Duration(w.Waited*float64(time.Second))))
	}
	return a.table(rows)
}
