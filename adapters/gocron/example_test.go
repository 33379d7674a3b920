package gocronlease_test

import (
	"context"
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/distributedleasing/leasing"
	gocronlease "github.com/distributedleasing/leasing/adapters/gocron"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// One of the processes runs the job at each tick. Its lease provides the job with a context and a fencing token.
func Example() {
	provider := memlease.New(memlease.Options{}) // in production: a backend that all processes share
	defer provider.Close()
	manager, err := leasing.NewManager(provider, leasing.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer manager.Close(context.Background())
	locker := &gocronlease.Locker{Manager: manager, Prefix: "jobs/", AtLeast: 50 * time.Millisecond}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
	if err != nil {
		fmt.Println(err)
		return
	}
	ran := make(chan string)
	report := func() { ran <- locker.Lease("report").Name() }
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(report), gocron.WithName("report"))
	if err != nil {
		fmt.Println(err)
		return
	}
	scheduler.Start()
	fmt.Println("ran under", <-ran)
	fmt.Println(scheduler.Shutdown())
	// Output:
	// ran under jobs/report
	// <nil>
}
