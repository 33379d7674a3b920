// The first program of a user of adapters/controllerruntime. It becomes the leader, and then resigns.
package main

import (
	"context"
	"log"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/distributedleasing/leasing"
	ctrllease "github.com/distributedleasing/leasing/adapters/controllerruntime"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func main() {
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:          ctrllease.New(manager, "app/controllers", "me"),
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { cancel() },
			OnStoppedLeading: func() {},
		},
	})
	if err := manager.Close(context.Background()); err != nil {
		log.Fatal(err)
	}
}
