package semaphore_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	"github.com/distributedleasing/leasing/recipes/semaphore"
)

func open() *leasing.Manager {
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{Owner: "node-1"})
	if err != nil {
		panic(err)
	}
	return manager
}

// All processes together make at most ten calls to the payment service at a time.
func Example() {
	ctx, manager := context.Background(), open()
	defer func() { _ = manager.Close(ctx) }()

	payments, err := semaphore.New(manager, semaphore.Options{Name: "external/payments", Permits: 10})
	if err != nil {
		panic(err)
	}
	err = payments.Do(ctx, func(ctx context.Context, permit *semaphore.Permit) error {
		fmt.Println("charging", ctx.Err() == nil) // as long as ctx lives
		return nil
	})
	fmt.Println(err)
	// Output:
	// charging true
	// <nil>
}

// TryAcquire sheds load instead of waiting.
func ExampleSemaphore_TryAcquire() {
	ctx, manager := context.Background(), open()
	defer func() { _ = manager.Close(ctx) }()
	reports, err := semaphore.New(manager, semaphore.Options{Name: "reports/render", Permits: 1})
	if err != nil {
		panic(err)
	}

	permit, err := reports.TryAcquire(ctx)
	fmt.Println("first:", permit.Slot(), err)
	_, err = reports.TryAcquire(ctx)
	fmt.Println("second:", errors.Is(err, leasing.ErrHeld), err)
	fmt.Println("released:", permit.Release(ctx))
	// Output:
	// first: 0 <nil>
	// second: true semaphore "reports/render": none of 1 permits is free
	// released: <nil>
}
