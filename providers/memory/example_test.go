package memlease_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// Two claims compete for a name of one provider.
func Example() {
	ctx := context.Background()
	provider, err := memlease.OpenURL(ctx, "memory://?retention=10m")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer provider.Close()

	first := abstractions.AcquireRequest{Name: "jobs/report", ID: abstractions.NewID(), Owner: "worker 1", TTL: time.Minute}
	second := abstractions.AcquireRequest{Name: "jobs/report", ID: abstractions.NewID(), Owner: "worker 2", TTL: time.Minute}

	one, err := provider.Acquire(ctx, first)
	fmt.Println("worker 1:", err)
	_, err = provider.Acquire(ctx, second)
	fmt.Println("worker 2 is refused:", errors.Is(err, abstractions.ErrHeld))

	err = provider.Release(ctx, abstractions.ReleaseRequest{Name: first.Name, ID: first.ID, Token: one.Token})
	fmt.Println("worker 1 releases:", err)
	two, err := provider.Acquire(ctx, second)
	fmt.Println("worker 2:", err, "with a higher token:", two.Token > one.Token)
	// Output:
	// worker 1: <nil>
	// worker 2 is refused: true
	// worker 1 releases: <nil>
	// worker 2: <nil> with a higher token: true
}
