package torture_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// The example tests a provider under lost replies for two seconds. Open your own provider in place
// of the memory provider; each worker opens a client of its own.
func ExampleRun() {
	report, err := torture.Run(context.Background(), torture.Options{
		Open: torture.Share(memlease.New(memlease.Options{})),
		Plan: chaos.LostReplies(chaos.LostRepliesOptions{}),
		For:  2 * time.Second,
		TTL:  500 * time.Millisecond,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(report.Verdict())
	// Output: no violation
}

// In virtual time four minutes of a partition pass in a second, and the seed of a
// failure repeats that failure. (Your test would have a different name.)
func TestExampleInVirtualTime_memory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		torture.Test(t, torture.Options{
			Open: torture.Share(memlease.New(memlease.Options{})), // created in the bubble, like all that reads the time
			Plan: chaos.Partition(chaos.PartitionOptions{}),
			For:  4 * time.Minute,
			Seed: 42, Repeatable: true,
			Patience: 100 * time.Millisecond, // virtual time does not depend on the speed of the machine
		})
	})
}
