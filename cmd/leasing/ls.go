package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
)

func (a *app) lsCommand() *cobra.Command {
	free := false
	cmd := &cobra.Command{
		Use:   "ls [PREFIX]",
		Short: "List leases that are held",
		Example: `  leasing ls
  leasing ls --all -o json deploy/`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.using(cmd.Context(), func(ctx context.Context, b *backend) error {
				records, err := a.list(ctx, b, first(args), free)
				if err != nil {
					return err
				}
				return a.print(records)
			})
		},
	}
	cmd.Flags().BoolVarP(&free, "all", "a", false, "also list free names that the backend remembers")
	return cmd
}

func first(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// list reads all pages, in the order of names.
func (a *app) list(ctx context.Context, b *backend, prefix string, free bool) ([]shown, error) {
	records := []shown{}
	for r, err := range b.List(ctx, leasing.ListOptions{Prefix: prefix, HeldOnly: !free}) {
		if err != nil {
			return nil, err
		}
		records = append(records, show(r))
	}
	slices.SortFunc(records, func(x, y shown) int { return cmp.Compare(x.Name, y.Name) })
	return records, nil
}

func (a *app) print(records []shown) error {
	return all(a, []string{"NAME", "STATE", "OWNER", "TOKEN", "LEFT", "METADATA"}, records, func(s shown) []string {
		return []string{s.Name, s.state(), s.holder(), strconv.FormatInt(s.Token, 10), s.left(), s.metadata()}
	})
}
