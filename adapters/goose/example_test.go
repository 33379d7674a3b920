package gooselease_test

import (
	"context"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	gooselease "github.com/distributedleasing/leasing/adapters/goose"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// Goose calls Lock before it migrates, and Unlock afterwards: goose.NewProvider(..., goose.WithLocker(locker)). Meanwhile a process
// with a wait limit gives up.
func Example() {
	ctx := context.Background()
	provider := memlease.New(memlease.Options{}) // in production: a backend that all processes share
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close(ctx)
	locker := gooselease.New(manager, "orders/migrate")
	another := gooselease.New(manager.With(leasing.AcquireOptions{WaitLimit: time.Millisecond}), "orders/migrate")

	work, stop := locker.Context(ctx) // the context for Up: it ends if the lease is lost
	defer stop()
	fmt.Println(locker.Lock(work, nil))
	fmt.Println("another gives up:", another.Lock(ctx, nil) != nil)
	fmt.Println(locker.Unlock(work, nil))
	// Output:
	// <nil>
	// another gives up: true
	// <nil>
}
