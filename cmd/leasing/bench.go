package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/distributedleasing/leasing"
)

func (a *app) benchCommand() *cobra.Command {
	length, clients := 3*time.Second, 8
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure acquire and release on this backend",
		Long: `Bench measures how long it takes to acquire and to release a lease: by one client, by several with names
of their own, and by several that hand one name to each other.`,
		Example: `  leasing bench --for 300ms --clients 2`,
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if length <= 0 || clients <= 0 {
				return fmt.Errorf("--for %v --clients %d: want more than 0", length, clients)
			}
			return a.bench(cmd.Context(), length/3, clients)
		},
	}
	cmd.Flags().DurationVar(&length, "for", length, "for how long, in all")
	cmd.Flags().IntVar(&clients, "clients", clients, "how many there are where there are several, each with a connection pool")
	return cmd
}

// measured is a line of the result, in seconds.
type measured struct {
	What    string  `json:"what"`
	Clients int     `json:"clients"`
	Cycles  int     `json:"cycles"`
	Rate    float64 `json:"cycles_per_s"`
	Median  float64 `json:"median_s"`
	P99     float64 `json:"p99_s"`
}

func (a *app) bench(ctx context.Context, length time.Duration, clients int) error {
	var results []measured
	for _, c := range []struct {
		what    string
		clients int
		shared  bool
	}{{"one name each", 1, false}, {"one name each", clients, false}, {"one name for all", clients, true}} {
		m, err := a.measure(ctx, length, c.clients, c.shared)
		if err != nil {
			return err
		}
		m.What = c.what
		results = append(results, m)
	}
	return all(a, []string{"WHAT", "CLIENTS", "CYCLES", "PER SECOND", "MEDIAN", "99 %"}, results, func(m measured) []string {
		return []string{
			m.What, strconv.Itoa(m.Clients), strconv.Itoa(m.Cycles), fmt.Sprintf("%.0f", m.Rate),
			rounded(time.Duration(m.Median * 1e9)), rounded(time.Duration(m.P99 * 1e9)),
		}
	})
}

// measure has clients acquire and release for a while, each at least once.
func (a *app) measure(ctx context.Context, length time.Duration, clients int, shared bool) (m measured, err error) {
	prefix := "leasing/bench/" + rand.Text()[:8]
	var all []*backend
	defer func() {
		for _, b := range all {
			err = errors.Join(err, b.close())
		}
	}()
	for range clients {
		b, err := a.open(ctx, leasing.Options{})
		if err != nil {
			return m, err
		}
		all = append(all, b)
	}
	cycles, problems := make([][]time.Duration, clients), make([]error, clients)
	begin := time.Now()
	var group sync.WaitGroup
	for i, b := range all {
		name := prefix
		if !shared {
			name = fmt.Sprintf("%s/%d", prefix, i)
		}
		group.Go(func() {
			for problems[i] == nil && (len(cycles[i]) == 0 || time.Since(begin) < length) {
				from := time.Now()
				var lease *leasing.Lease
				if lease, problems[i] = b.With(leasing.AcquireOptions{WaitLimit: length + a.timeout}).Acquire(ctx, name); problems[i] == nil {
					problems[i] = lease.Release(ctx)
				}
				cycles[i] = append(cycles[i], time.Since(from))
			}
		})
	}
	group.Wait()
	if err := errors.Join(problems...); err != nil {
		return m, err
	}
	took, sorted := time.Since(begin), slices.Sorted(slices.Values(slices.Concat(cycles...)))
	return measured{
		Clients: clients, Cycles: len(sorted), Rate: float64(len(sorted)) / took.Seconds(),
		Median: sorted[len(sorted)/2].Seconds(), P99: sorted[len(sorted)*99/100].Seconds(),
	}, nil
}
