package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/open"
)

func versionCommand(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  leasing version",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if a.Format == "json" {
				return a.JSON(map[string]any{"version": version(), "commit": commit(), "go": runtime.Version(), "platform": runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintf(a.Out, "leasing %s %s %s %s/%s\nbackends: %s\n", version(), commit(), runtime.Version(), runtime.GOOS, runtime.GOARCH, open.Schemes(cli.Openers...))
			return err
		},
	}
}

// version returns the version of the module that go install has recorded.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "(devel)"
}

// commit returns the commit of the code if the program was built in a checkout, and otherwise "-".
func commit() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, s := range info.Settings {
			if s.Key == "vcs.revision" {
				return s.Value
			}
		}
	}
	return "-"
}
