package deadlock_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	"github.com/distributedleasing/leasing/recipes/deadlock"
)

// An actor that waits for a name that it holds itself gets an error instead of waiting forever.
func ExampleActor_Acquire() {
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{Owner: "worker 7"})
	if err != nil {
		panic(err)
	}
	ctx := context.Background()
	defer func() { _ = manager.Close(ctx) }()

	actor, err := deadlock.New(manager, deadlock.Options{After: 10 * time.Millisecond})
	if err != nil {
		panic(err)
	}
	lease, err := actor.Acquire(ctx, "accounts/7")
	if err != nil {
		panic(err)
	}
	defer func() { _ = lease.Release(ctx) }()

	_, err = actor.Acquire(ctx, "accounts/7")
	if cycle, is := errors.AsType[*deadlock.Error](err); is {
		fmt.Println(cycle)
	}
	// Output:
	// deadlock: "worker 7" holds "accounts/7" and waits for "accounts/7"
}
