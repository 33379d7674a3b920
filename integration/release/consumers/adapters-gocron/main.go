// The first program of a user of adapters/gocron. It runs one job under a lease.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/distributedleasing/leasing"
	gocronlease "github.com/distributedleasing/leasing/adapters/gocron"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func main() {
	ctx := context.Background()
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{})
	if err != nil {
		log.Fatal(err)
	}
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(&gocronlease.Locker{Manager: manager, Prefix: "jobs/"}))
	if err != nil {
		log.Fatal(err)
	}
	ran := make(chan struct{}, 1)
	_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() { ran <- struct{}{} }))
	if err != nil {
		log.Fatal(err)
	}
	scheduler.Start()
	select {
	case <-ran:
		fmt.Println("ran")
	case <-time.After(30 * time.Second):
		log.Fatal("it did not run")
	}
	if err := errors.Join(scheduler.Shutdown(), manager.Close(ctx)); err != nil {
		log.Fatal(err)
	}
}
