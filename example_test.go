package leasing_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/distributedleasing/leasing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// A complete program, with the functions run and runMaintenance below.
func Example() {
	if err := run(context.Background()); err != nil {
		log.Fatal(err)
	}
	// Output:
	// backend: healthy
	// holding the name, with a fencing token: true
}

func run(ctx context.Context) error {
	provider := memlease.New(memlease.Options{}) // in production redislease.Open, postgreslease.Open, ...: see below
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{Logger: slog.Default()})
	if err != nil {
		return err
	}
	defer manager.Close(ctx)
	fmt.Println("backend:", manager.Health(ctx).Status)

	return manager.Do(ctx, "jobs/daily-maintenance", func(ctx context.Context, lease *leasing.Lease) error {
		return runMaintenance(ctx, lease.Token()) // ctx ends, with a cause, before anyone else can hold the name
	})
}

func runMaintenance(ctx context.Context, token int64) error {
	fmt.Println("holding the name, with a fencing token:", token > 0)
	return ctx.Err()
}

// open opens the memory provider. Open the provider of your choice instead: see the modules under
// providers.
func open() *leasing.Manager {
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{Owner: "worker-1"})
	if err != nil {
		panic(err)
	}
	return manager
}

// Do runs a function while holding a name. Most programs need no other call.
func ExampleManager_Do() {
	ctx, manager := context.Background(), open()
	defer manager.Close(ctx)

	err := manager.Do(ctx, "jobs/daily-maintenance", func(ctx context.Context, lease *leasing.Lease) error {
		fmt.Println("holding", lease.Name(), "with a token:", lease.Token() > 0)
		return nil // the work goes here, and stops when ctx ends
	})
	fmt.Println(err)
	// Output:
	// holding jobs/daily-maintenance with a token: true
	// <nil>
}

// TryDo does not wait for a job that another process is already doing.
func ExampleManager_TryDo() {
	ctx, manager := context.Background(), open()
	defer manager.Close(ctx)
	job := func(ctx context.Context, _ *leasing.Lease) error {
		// Inside the job the name is already taken.
		return manager.TryDo(ctx, "jobs/report", func(context.Context, *leasing.Lease) error { return nil })
	}

	err := manager.Do(ctx, "jobs/report", job)
	var held *leasing.HeldError
	if errors.As(err, &held) {
		fmt.Println("left to", held.Holder.Owner)
	}
	// Output: left to worker-1
}

// Acquire returns a lease that may outlive one function.
func ExampleManager_acquire() {
	ctx, manager := context.Background(), open()
	defer manager.Close(ctx)

	lease, err := manager.With(leasing.AcquireOptions{
		TTL:       10 * time.Minute,
		WaitLimit: time.Minute,
		Metadata:  map[string]string{"version": "42"},
	}).Acquire(ctx, "schema/migrations")
	if err != nil {
		fmt.Println(err) // leasing.ErrHeld: another process is at work
		return
	}
	defer lease.Release(ctx)

	select {
	case <-lease.Done(): // lost: stop, another process may begin
		fmt.Println(lease.Err())
	default:
		record, _ := manager.Inspect(ctx, "schema/migrations")
		fmt.Println(record.Owner, "migrates to version", record.Metadata["version"])
	}
	// Output: worker-1 migrates to version 42
}

// SetMetadata changes the metadata that others see while the lease is held.
func ExampleLease_setMetadata() {
	ctx, manager := context.Background(), open()
	defer manager.Close(ctx)
	lease, _ := manager.With(leasing.AcquireOptions{Metadata: map[string]string{"at": "1"}}).Acquire(ctx, "cursor/orders")
	defer lease.Release(ctx)

	err := lease.SetMetadata(ctx, map[string]string{"at": "2"})
	record, _ := manager.Inspect(ctx, "cursor/orders")
	fmt.Println(err, record.Metadata["at"])
	// Output: <nil> 2
}

// In a rolling update the new process continues the lease, under the same token.
func ExampleLease_handOver() {
	ctx := context.Background()
	provider := memlease.New(memlease.Options{})
	before, _ := leasing.NewManager(provider, leasing.Options{})
	after, _ := leasing.NewManager(provider, leasing.Options{})
	defer after.Close(ctx)
	lease, _ := before.Acquire(ctx, "shard/7")

	handover, err := lease.HandOver(ctx) // once the work here has stopped
	message, _ := json.Marshal(handover)
	fmt.Println(err, lease.Err(), before.Close(ctx))

	var received leasing.Handover
	_ = json.Unmarshal(message, &received)
	adopted, err := after.Adopt(ctx, received, leasing.AdoptOptions{})
	fmt.Println(err, adopted.Token() == lease.Token())
	adopted.Release(ctx)
	// Output:
	// <nil> lease handed over <nil>
	// <nil> true
}

// A second Acquire of a name waits until the first lease is released.
func ExampleManager_acquire_waiting() {
	ctx, manager := context.Background(), open()
	defer manager.Close(ctx)
	first, _ := manager.Acquire(ctx, "cursor/orders")
	time.AfterFunc(10*time.Millisecond, func() { first.Release(ctx) })

	second, err := manager.Acquire(ctx, "cursor/orders")
	fmt.Println(err, second.Token() > first.Token())
	second.Release(ctx)
	// Output: <nil> true
}

// Waiters lists the claims that are waiting for a name, and when each began to wait.
func ExampleManager_waiters() {
	ctx := context.Background()
	provider := memlease.New(memlease.Options{})
	holder, _ := leasing.NewManager(provider, leasing.Options{Owner: "worker 1"})
	defer holder.Close(ctx)
	other, _ := leasing.NewManager(provider, leasing.Options{Owner: "worker 2"})
	defer other.Close(ctx)
	lease, _ := holder.Acquire(ctx, "jobs/report")

	done := make(chan error)
	go func() {
		done <- other.Do(ctx, "jobs/report", func(context.Context, *leasing.Lease) error { return nil })
	}()
	waiters, err := holder.Waiters(ctx, "jobs/report")
	for err == nil && len(waiters) == 0 { // until the goroutine waits
		time.Sleep(time.Millisecond)
		waiters, err = holder.Waiters(ctx, "jobs/report")
	}
	for place, w := range waiters {
		fmt.Printf("%d. %s, for less than a minute: %v\n", place+1, w.Owner, w.Now.Sub(w.Since) < time.Minute)
	}
	fmt.Println(err, lease.Release(ctx), <-done)
	// Output:
	// 1. worker 2, for less than a minute: true
	// <nil> <nil> <nil>
}

// An operator breaks another process's lease, but no later lease: IfToken names the lease to break.
func ExampleManager_break() {
	ctx, manager := context.Background(), open()
	defer manager.Close(ctx)
	stuck, _ := manager.Acquire(ctx, "jobs/stuck")

	record, _ := manager.Inspect(ctx, "jobs/stuck")
	_, err := manager.Break(ctx, "jobs/stuck", leasing.BreakOptions{IfToken: record.Token, Immediate: true})
	fmt.Println(err)
	fmt.Println(errors.Is(stuck.Renew(ctx), leasing.ErrLost), stuck.Err())
	// Output:
	// <nil>
	// true lease lost: broken by "worker-1"
}

// Subscribe delivers the events of all leases of a manager.
func ExampleManager_subscribe() {
	ctx, manager := context.Background(), open()
	manager.Subscribe(func(e leasing.Event) { fmt.Println(e.Kind, e.Name) })

	lease, _ := manager.Acquire(ctx, "jobs/report")
	lease.Release(ctx)
	manager.Close(ctx) // delivers the pending events
	// Output:
	// acquired jobs/report
	// released jobs/report
}

// HealthHandler serves a health check that does not acquire a lease.
func ExampleHealthHandler() {
	manager := open()
	defer manager.Close(context.Background())
	http.Handle("/readyz", leasing.HealthHandler(manager))
	fmt.Println(manager.Health(context.Background()).Status)
	// Output: healthy
}
