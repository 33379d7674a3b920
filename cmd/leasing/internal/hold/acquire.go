package hold

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/cli"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/exit"
	"github.com/distributedleasing/leasing/cmd/leasing/internal/supervise"
)

// Acquire is the command that acquires a lease that outlives the command itself.
func Acquire(a *cli.App) *cobra.Command {
	ttl, wait, reason := "1h", "0s", ""
	cmd := &cobra.Command{
		Use:   "acquire NAME",
		Short: "Take a lease that outlives this command, and print its ID",
		Long: `Acquire takes the lease NAME for the time of --ttl, prints its ID and ends. The lease is not renewed: it ends with
"leasing release", or when this time is over. Use acquire in the steps of a CI job, or to freeze a name.
To run a command under a lease use "leasing run", which ends the command when the lease is lost.

The ID is the key to the lease. Acquire exits with 75 if the name is taken.`,
		Example: `  id=$(leasing acquire --ttl 30m --reason 'release 1.4' freeze/web) && leasing release --id "$id" freeze/web`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			options := leasing.AcquireOptions{}
			if reason != "" {
				options.Metadata = map[string]string{"reason": reason}
			}
			limit, err := (&runFlags{wait: wait}).waitLimit()
			if err != nil {
				return err
			}
			if options.TTL, err = timeToLive(ttl); err != nil {
				return err
			}
			options.NoAutoRenew = options.TTL != leasing.Infinite // the first renewal makes the lease infinite
			signals := supervise.NewSignals()
			signals.Catch() // a signal must not leave behind a lease whose ID was not printed
			return signals.CancelOnSignal(cmd.Context(), func(ctx context.Context) error {
				return a.Using(ctx, func(ctx context.Context, b *cli.Backend) error {
					return acquireAndPrint(ctx, a, b, args[0], limit, options)
				})
			})
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&ttl, "ttl", ttl, "time for which the name stays taken, or forever")
	flags.StringVar(&wait, "wait", wait, "time to wait if the name is taken, or forever")
	flags.StringVar(&reason, "reason", "", "reason, for people to read")
	return cmd
}

// timeToLive parses a TTL.
func timeToLive(text string) (time.Duration, error) {
	if text == "forever" {
		return leasing.Infinite, nil
	}
	ttl, err := time.ParseDuration(text)
	if err != nil || ttl <= 0 {
		return 0, fmt.Errorf("--ttl %q: want a time such as 30m, or forever", text)
	}
	return ttl, nil
}

// acquireAndPrint acquires a lease, prints its ID, and leaves the lease held.
func acquireAndPrint(ctx context.Context, a *cli.App, b *cli.Backend, name string, limit time.Duration, options leasing.AcquireOptions) error {
	options.WaitLimit = max(limit, 0)
	acquire := b.With(options).Acquire
	if limit == 0 {
		acquire = b.With(options).TryAcquire
	}
	lease, err := acquire(ctx, name)
	if errors.Is(err, leasing.ErrHeld) {
		return &exit.Error{Code: exit.Busy, Err: err}
	}
	if err != nil {
		return err
	}
	if err := printLease(a, lease); err != nil {
		return errors.Join(err, lease.Release(ctx))
	}
	_, err = lease.HandOver(context.WithoutCancel(ctx)) // a signal must not stop the hand-over, since the ID was printed
	return err
}

// printLease prints the ID of a lease, or in JSON its ID, name, token and TTL.
func printLease(a *cli.App, lease *leasing.Lease) error {
	if a.Format != "json" {
		_, err := fmt.Fprintln(a.Out, lease.ID())
		return err
	}
	fields := map[string]any{"name": lease.Name(), "id": lease.ID(), "token": lease.Token()}
	if ttl := lease.TTL(); ttl == leasing.Infinite {
		fields["infinite"] = true
	} else {
		fields["ttl_s"] = ttl.Seconds()
	}
	return a.JSON(fields)
}

// Release is the command that ends a lease from Acquire.
func Release(a *cli.App) *cobra.Command {
	id := ""
	cmd := &cobra.Command{
		Use:   "release NAME",
		Short: `End a lease that "leasing acquire" took`,
		Long: `Release ends the lease NAME if it has the ID that "leasing acquire" printed. It exits with 1 if the name is free
by now, or if another lease has the name. To end a lease without its ID use "leasing break".`,
		Example: `  leasing release --id 0198c0de-0000-7000-8000-000000000000 deploy/web || true`,
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if id == "" {
				id = os.Getenv("LEASING_ID")
			}
			if id == "" {
				return errors.New("--id: want the ID that acquire printed, here or in $LEASING_ID")
			}
			return a.Using(cmd.Context(), func(ctx context.Context, b *cli.Backend) error { return releaseByID(ctx, a, b, args[0], id) })
		},
	}
	cmd.Flags().StringVar(&id, "id", "", "the lease's `ID` (default $LEASING_ID)")
	return cmd
}

// releaseByID releases a lease by its ID, and retries while the backend does not answer.
func releaseByID(ctx context.Context, a *cli.App, b *cli.Backend, name, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*a.Timeout)
	defer cancel()
	sent := false
	for {
		r, err := b.Inspect(ctx, name)
		switch {
		case err == nil && r.Held && r.Fingerprint == leasing.FingerprintOf(id):
			sent = true
			err = b.Provider.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id, Token: r.Token})
		case err == nil && !sent:
			return &exit.Error{Code: exit.No, Err: fmt.Errorf("%s: no lease with this ID", name)}
		}
		if err == nil || !cli.IsTemporary(err) {
			return err
		}
		select {
		case <-time.After(cli.OpenPause):
		case <-ctx.Done():
			return err
		}
	}
}
