package ctrllease_test

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/tools/leaderelection"

	"github.com/distributedleasing/leasing"
	ctrllease "github.com/distributedleasing/leasing/adapters/controllerruntime"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// Client-go's loop elects a leader. In controller-runtime the lock is LeaderElectionResourceLockInterface of ctrl.Options.
func Example() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	provider := memlease.New(memlease.Options{}) // in production: a backend that all candidates share
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close(context.Background())
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock:          ctrllease.New(manager, "controllers/billing", "pod-1"),
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { stop() }, // the work
			OnStoppedLeading: func() { fmt.Println("leads no more") },
		},
	})
	// Output:
	// leads no more
}
