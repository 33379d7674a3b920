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

// measure acquires, renews and releases a lease that nobody else wants, one
// after the other, and prints how long each takes from here: of your backend,
// your network, your tier.
func measure(ctx context.Context, manager leasing.Manager, name string, cycles int, out io.Writer) error {
	name += "-" + strings.ToLower(rand.Text()[:8])
	verbs := []string{"acquire", "renew", "release"}
	took := map[string][]time.Duration{}
	for range cycles + 1 {
		cycle, err := once(ctx, manager, name)
		if err != nil {
			return err
		}
		for i, verb := range verbs {
			took[verb] = append(took[verb], cycle[i])
		}
	}
	table := tabwriter.NewWriter(out, 0, 0, 3, ' ', 0)
	fmt.Fprintf(table, "%s, %d times\tmedian\t99 %%\tfirst\n", manager.Capabilities().Provider, cycles)
	for _, verb := range verbs {
		first := took[verb][0] // which connects, and asks for a token
		rest := slices.Sorted(slices.Values(took[verb][1:]))
		fmt.Fprintf(table, "%s\t%v\t%v\t%v\n", verb, round(rest[len(rest)/2]), round(rest[len(rest)*99/100]), round(first))
	}
	return table.Flush()
}

// once is one cycle, and how long each of its three requests took.
func once(ctx context.Context, manager leasing.Manager, name string) (took [3]time.Duration, err error) {
	var lease leasing.Lease
	for i, step := range []func() error{
		func() (err error) { lease, err = manager.TryAcquire(ctx, name, nil); return err },
		func() error { return lease.Renew(ctx) },
		func() error { return lease.Release(ctx) },
	} {
		began := time.Now()
		if err := step(); err != nil {
			return took, err
		}
		took[i] = time.Since(began)
	}
	return took, nil
}

func round(d time.Duration) time.Duration {
	if d < time.Millisecond {
		return d.Round(time.Microsecond)
	}
	return d.Round(10 * time.Microsecond)
}
