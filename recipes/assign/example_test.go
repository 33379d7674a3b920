package assign_test

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	"github.com/distributedleasing/leasing/recipes/assign"
)

// A single worker works on all partitions. With a second worker it would work on half of the
// partitions.
func Example() {
	ctx := context.Background()
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{})
	if err != nil {
		panic(err)
	}
	defer func() { _ = manager.Close(ctx) }()

	begun := make(chan string)
	worker, err := assign.New(manager, assign.Options{
		Name:       "orders",
		Partitions: []string{"0", "1", "2"},
		Work: func(ctx context.Context, partition string, _ *leasing.Lease) error {
			begun <- partition
			<-ctx.Done() // consume until then
			return ctx.Err()
		},
	})
	if err != nil {
		panic(err)
	}
	done := make(chan error)
	go func() { done <- worker.Run(ctx) }()
	for range 3 {
		<-begun
	}
	fmt.Println(worker.Partitions())
	fmt.Println(worker.Leave(ctx), <-done) // on a deployment
	// Output:
	// [0 1 2]
	// <nil> <nil>
}
