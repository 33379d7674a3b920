// The first program of a user of chaos. It acquires and releases a lease although replies get lost.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func main() {
	ctx := context.Background()
	plan := chaos.LostReplies(chaos.LostRepliesOptions{Seed: 3, Probability: 0.5})
	provider, err := chaos.Wrap(memlease.New(memlease.Options{}), plan, chaos.Options{})
	if err != nil {
		log.Fatal(err)
	}
	manager, err := leasing.NewManager(provider, leasing.Options{Owner: "worker-1"})
	if err != nil {
		log.Fatal(err)
	}
	err = manager.Do(ctx, "jobs/daily-maintenance", func(_ context.Context, lease *leasing.Lease) error {
		fmt.Println("token", lease.Token())
		return nil
	})
	fmt.Println(provider.Report())
	if err := errors.Join(err, manager.Close(ctx), provider.Close()); err != nil {
		log.Fatal(err)
	}
}
