package operate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/output"
)

// Break is the command that ends the lease of another holder.
func Break(a *cli.App) *cobra.Command {
	options := leasing.BreakOptions{}
	yes := false
	cmd := &cobra.Command{
		Use:   "break NAME",
		Short: "End the lease of another holder",
		Long: `Break shows the lease and asks for confirmation. Then it ends exactly this lease: the holder can't renew the lease
any more, and learns of the break at its next renewal. The name is free when the lease has run out.

With --immediate the name is free at once, while its holder may still be at work: use this flag only if you know
the holder to be dead. Break exits with 1 if the name is free, or has another holder by then.`,
		Example: `  leasing break --yes --reason 'host web-3 is dead' deploy/web`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.Using(cmd.Context(), func(ctx context.Context, b *cli.Backend) error {
				return breakLease(ctx, a, b, args[0], options, yes)
			})
		},
	}
	flags := cmd.Flags()
	flags.Int64Var(&options.IfToken, "if-token", 0, "end only the lease with this fencing `token` (default the token shown)")
	flags.BoolVar(&options.Immediate, "immediate", false, "free the name at once")
	flags.StringVar(&options.Reason, "reason", "", "reason, for the holder and the history")
	flags.StringVar(&options.Actor, "actor", "", "author of the break (default this user and host)")
	flags.BoolVarP(&yes, "yes", "y", false, "don't ask for confirmation")
	return cmd
}

func breakLease(ctx context.Context, a *cli.App, b *cli.Backend, name string, options leasing.BreakOptions, yes bool) error {
	r, err := b.Inspect(ctx, name)
	if err != nil {
		return err
	}
	if !r.Held {
		return &exit.Error{Code: exit.No, Err: fmt.Errorf("%s is not held", name)}
	}
	if options.IfToken == 0 {
		options.IfToken = r.Token
	}
	if options.Actor == "" {
		options.Actor = thisUser()
	}
	if !yes {
		if err := confirm(a, output.RecordOf(r), options); err != nil {
			return err
		}
	}
	result, err := b.Break(ctx, name, options)
	switch {
	case errors.Is(err, leasing.ErrStale), err == nil && !result.WasHeld:
		return &exit.Error{Code: exit.No, Err: fmt.Errorf("%s: the lease with token %d has already ended", name, options.IfToken)}
	case err != nil:
		return err
	case a.Format == "json":
		return a.JSON(map[string]any{"name": name, "token": result.Token, "free_in_s": result.Remaining.Seconds()})
	case result.Remaining == 0:
		_, err = fmt.Fprintf(a.Out, "%s is free\n", output.Inert(name))
	default:
		_, err = fmt.Fprintf(a.Out, "%s is free in %s, or sooner if its holder releases the lease\n", output.Inert(name), output.Rounded(result.Remaining))
	}
	return err
}

// confirm shows the lease that would end, and asks the user to type its name.
func confirm(a *cli.App, s output.Record, options leasing.BreakOptions) error {
	if file, ok := a.In.(*os.File); ok && !output.IsTerminal(file) {
		return errors.New("can't ask for confirmation: standard input is no terminal; add --yes")
	}
	plain := output.Printer{Streams: output.Streams{Out: a.Err}, Format: "table"}
	if err := plain.Detail(s); err != nil {
		return err
	}
	how := "its holder can't renew it any more"
	if options.Immediate {
		how = "another holder may have the name AT ONCE, beside the present holder"
	}
	fmt.Fprintf(a.Err, "\nEnd this lease (%s)? Type its name: ", how)
	answer, _ := bufio.NewReader(a.In).ReadString('\n') // an answer that is cut off does not match
	if strings.TrimRight(answer, "\r\n") != s.Name {
		return &exit.Error{Code: exit.No, Err: errors.New("not ended: the typed name does not match")}
	}
	return nil
}

// thisUser returns the user and the host of this process, as a text for people.
func thisUser() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	host, err := os.Hostname()
	if err != nil {
		return name
	}
	return name + "@" + host
}
