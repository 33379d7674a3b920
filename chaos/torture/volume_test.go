package torture_test

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
)

// Busy workers run under one plan after another, until they have made LEASING_TEST_VOLUME
// requests, by default 10,000. Two runs are active at a time.
func TestVolume_memory(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	wanted := int64(10_000)
	if text := os.Getenv("LEASING_TEST_VOLUME"); text != "" {
		var err error
		wanted, err = strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
	}
	var runs, requests, undecided, orders atomic.Int64
	began := time.Now()
	t.Run("runs", func(t *testing.T) {
		for line := range 2 {
			t.Run(fmt.Sprint(line+1), func(t *testing.T) {
				t.Parallel()
				names := chaos.Names()
				for requests.Load() < wanted {
					n := runs.Add(1)
					plan, err := chaos.Named(names[int(n)%len(names)], uint64(n))
					require.NoError(t, err)
					report := virtual(t, torture.Options{Plan: plan, Seed: uint64(n), For: 10 * minute, Intensity: 20, Names: 8, Workers: 16, Operations: int(min(wanted/2, 50_000))}, nil)
					if !report.OK() {
						t.Errorf("run %d: %s\nhistory: %s", n, report, written(t, uint64(n), report))
					}
					requests.Add(int64(report.Requests))
					undecided.Add(int64(len(report.Undecided)))
					orders.Add(int64(2 * report.Names))
				}
			})
		}
	})
	t.Logf("%d requests in %d runs and %v; %d of %d orders undecided", requests.Load(), runs.Load(), time.Since(began).Round(time.Second), undecided.Load(), orders.Load())
	require.LessOrEqual(t, 100*undecided.Load(), orders.Load())
}
