package main

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing/open"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
)

func (a *app) sqlCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "sql", Short: "For those who create tables with tools of their own"}
	cmd.AddCommand(&cobra.Command{
		Use:   "schema",
		Short: "Print the statements that create the tables",
		Long: `Schema prints what has to be run once, for the dialect, schema and table of the URL. It connects to nothing. With
create=true in the URL leasing creates the tables itself, if it may.`,
		Example: "  leasing sql schema --url 'postgres://db.example/app?schema=leases'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			where, _, err := a.where()
			if err != nil {
				return err
			}
			openURL := sqllease.OpenURL
			if slices.Contains(mysqllease.Opener().Schemes, open.Scheme(where)) {
				openURL = mysqllease.OpenURL
			} else if !slices.Contains(sqllease.Opener().Schemes, open.Scheme(where)) {
				return fmt.Errorf("want the URL of an SQL database: %s", open.Schemes(sqllease.Opener(), mysqllease.Opener()))
			}
			provider, err := openURL(cmd.Context(), withoutCreate(where))
			if err != nil {
				return err
			}
			defer func() { _ = provider.Close() }() // nothing was opened
			_, err = fmt.Fprintf(a.out, "%s;\n", strings.Join(provider.Statements(), ";\n"))
			return err
		},
	})
	return cmd
}

// withoutCreate is a URL that changes nothing when it is opened.
func withoutCreate(rawURL string) string {
	rest, query, found := strings.Cut(rawURL, "?")
	if !found {
		return rawURL
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return rawURL // whose error is for the provider to tell
	}
	values.Del("create")
	return rest + "?" + values.Encode()
}
