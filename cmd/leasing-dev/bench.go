package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"slices"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// closeTimeout bounds the wait for the backend after a measurement.
const closeTimeout = 5 * time.Second

func (a *app) benchCommand() *cobra.Command {
	length, clients := 3*time.Second, 8
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure acquire and release on this backend",
		Long: `Bench measures how long it takes to acquire and to release a lease: by one client, by several with names
of their own, and by several that hand one name to each other.`,
		Example: `  leasing-dev bench --for 300ms --clients 2`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if length <= 0 || clients <= 0 {
				return fmt.Errorf("--for %v --clients %d: want more than 0", length, clients)
			}
			return a.bench(cmd.Context(), length/3, clients)
		},
	}
	cmd.Flags().DurationVar(&length, "for", length, "total time of the measurement")
	cmd.Flags().IntVar(&clients, "clients", clients, "number of concurrent clients, each with a connection pool")
	return cmd
}

// measurement is a line of the result. Times are in seconds.
type measurement struct {
	What    string  `json:"what"`
	Clients int     `json:"clients"`
	Cycles  int     `json:"cycles"`
	Rate    float64 `json:"cycles_per_s"`
	Median  float64 `json:"median_s"`
	P99     float64 `json:"p99_s"`
}

func (a *app) bench(ctx context.Context, length time.Duration, clients int) error {
	where, err := a.backendURL()
	if err != nil {
		return err
	}
	var results []measurement
	for _, c := range []struct {
		what    string
		clients int
		shared  bool
	}{{"one name each", 1, false}, {"one name each", clients, false}, {"one name for all", clients, true}} {
		m, err := a.measure(ctx, where, length, c.clients, c.shared)
		if err != nil {
			return err
		}
		m.What = c.what
		results = append(results, m)
	}
	if a.output == "json" {
		for _, m := range results {
			if err := providerkit.WriteJSON(a.out, m); err != nil {
				return err
			}
		}
		return nil
	}
	table := tabwriter.NewWriter(a.out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "WHAT\tCLIENTS\tCYCLES\tPER SECOND\tMEDIAN\t99 %")
	for _, m := range results {
		fmt.Fprintf(table, "%s\t%d\t%d\t%.0f\t%v\t%v\n", m.What, m.Clients, m.Cycles, m.Rate, rounded(m.Median), rounded(m.P99))
	}
	return table.Flush()
}

// rounded converts seconds to a duration, rounded to a microsecond.
func rounded(seconds float64) time.Duration {
	return time.Duration(seconds * float64(time.Second)).Round(time.Microsecond)
}

// measure runs clients that acquire and release leases until length has passed, each at least once.
func (a *app) measure(ctx context.Context, where string, length time.Duration, clients int, shared bool) (m measurement, err error) {
	prefix := "leasing/bench/" + rand.Text()[:8]
	var all []*leasing.Manager
	var closers []func(context.Context) error
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
		defer cancel()
		for _, c := range slices.Backward(closers) {
			err = cmp.Or(err, c(ctx))
		}
	}()
	for range clients {
		p, err := provider(ctx, where)
		if err != nil {
			return m, err
		}
		closers = append(closers, func(context.Context) error { return p.Close() })
		manager, err := leasing.NewManager(p, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: a.timeout}})
		if err != nil {
			return m, err
		}
		all, closers = append(all, manager), append(closers, manager.Close)
	}
	cycles, problems := make([][]time.Duration, clients), make([]error, clients)
	begin := time.Now()
	var group sync.WaitGroup
	for i, manager := range all {
		name := prefix
		if !shared {
			name = fmt.Sprintf("%s/%d", prefix, i)
		}
		group.Go(func() {
			for problems[i] == nil && (len(cycles[i]) == 0 || time.Since(begin) < length) {
				from := time.Now()
				var lease *leasing.Lease
				if lease, problems[i] = manager.With(leasing.AcquireOptions{WaitLimit: length + a.timeout}).Acquire(ctx, name); problems[i] == nil {
					problems[i] = lease.Release(ctx)
				}
				cycles[i] = append(cycles[i], time.Since(from))
			}
		})
	}
	group.Wait()
	if err := cmp.Or(problems...); err != nil { // one error is enough: the clients fail for the same reason
		return m, err
	}
	took, sorted := time.Since(begin), slices.Sorted(slices.Values(slices.Concat(cycles...)))
	return measurement{
		Clients: clients, Cycles: len(sorted), Rate: float64(len(sorted)) / took.Seconds(),
		Median: sorted[len(sorted)/2].Seconds(), P99: sorted[len(sorted)*99/100].Seconds(),
	}, nil
}
