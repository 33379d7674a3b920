package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/distributedleasing/leasing"
)

// measure acquires, renews and releases a lease that no other client wants, in a loop, and prints
// how long each request takes from this host. So the times are those of your backend, your network
// and your tier.
func measure(ctx context.Context, manager *leasing.Manager, name string, cycles int, out io.Writer) error {
	name += "-" + strings.ToLower(rand.Text()[:8])
	var lease *leasing.Lease
	verbs := []string{"acquire", "renew", "release"}
	steps := []func() error{
		func() (err error) { lease, err = manager.TryAcquire(ctx, name); return err },
		func() error { return lease.Renew(ctx) },
		func() error { return lease.Release(ctx) },
	}
	var took [3][]time.Duration
	for range cycles + 1 {
		for i, step := range steps {
			began := time.Now()
			if err := step(); err != nil {
				return err
			}
			took[i] = append(took[i], time.Since(began).Round(time.Microsecond))
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "%s, %d times\tmedian\t99 %%\tfirst\n", manager.Capabilities().Provider, cycles)
	for i, verb := range verbs {
		first := took[i][0] // this cycle also connects, and fetches a token
		rest := slices.Sorted(slices.Values(took[i][1:]))
		fmt.Fprintf(table, "%s\t%v\t%v\t%v\n", verb, rest[len(rest)/2], rest[len(rest)*99/100], first)
	}
	return table.Flush()
}
