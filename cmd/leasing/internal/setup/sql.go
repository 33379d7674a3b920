package setup

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/open"
	sqllease "github.com/distributedleasing/leasing/providers/sql"
	mysqllease "github.com/distributedleasing/leasing/providers/sql/mysql"
	postgreslease "github.com/distributedleasing/leasing/providers/sql/postgres"
	sqlitelease "github.com/distributedleasing/leasing/providers/sql/sqlite"
)

// SQL is the command that prints SQL for other migration tools.
func SQL(a *cli.App) *cobra.Command {
	cmd := &cobra.Command{Use: "sql", Short: "Print SQL, for other migration tools"}
	cmd.AddCommand(&cobra.Command{
		Use:   "schema",
		Short: "Print the statements that create the tables",
		Long: `Schema prints the statements to run once, for the dialect, schema and table of the URL. It connects to no server. With
create=true in the URL leasing creates the tables itself, if its user has the right.`,
		Example: "  leasing sql schema --url 'postgres://db.example/app?schema=leases'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			where, _, err := a.Where()
			if err != nil {
				return err
			}
			dialects := []abstractions.Opener{postgreslease.Opener(), sqlitelease.Opener(), mysqllease.Opener()}
			if !slices.ContainsFunc(dialects, func(o abstractions.Opener) bool { return slices.Contains(o.Schemes, open.Scheme(where)) }) {
				return fmt.Errorf("want the URL of an SQL database: %s", open.Schemes(dialects...))
			}
			provider, err := open.URL(cmd.Context(), withoutCreate(where), dialects...)
			if err != nil {
				return err
			}
			defer func() { _ = provider.Close() }() // nothing was opened
			_, err = fmt.Fprintf(a.Out, "%s;\n", strings.Join(provider.(*sqllease.Provider).Statements(), ";\n"))
			return err
		},
	})
	return cmd
}

// withoutCreate returns a URL without create, so that opening the URL creates nothing.
func withoutCreate(rawURL string) string {
	rest, query, found := strings.Cut(rawURL, "?")
	if !found {
		return rawURL
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return rawURL // the provider returns its error
	}
	values.Del("create")
	return rest + "?" + values.Encode()
}
