package schedule_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/fencing"
	memlease "github.com/distributedleasing/leasing/providers/memory"
	"github.com/distributedleasing/leasing/recipes/schedule"
)

func open() *leasing.Manager {
	manager, err := leasing.NewManager(memlease.New(memlease.Options{}), leasing.Options{Owner: "node-1"})
	if err != nil {
		panic(err)
	}
	return manager
}

// One process of a service. Each process runs the same code.
func Example() {
	ctx, shutDown := context.WithCancel(context.Background())
	manager := open()
	defer func() { _ = manager.Close(context.Background()) }()

	err := schedule.Run(ctx, manager, schedule.Options{
		Name:        "jobs/hourly-report",
		Every:       time.Hour,
		CatchUp:     true, // don't wait for the next full hour
		StartWithin: time.Hour,
		Jitter:      10 * time.Millisecond,
		OnError:     func(tick time.Time, err error) { fmt.Println(tick, err) },
	}, func(ctx context.Context, tick schedule.Tick) error {
		fmt.Println("on the hour:", tick.At.Equal(tick.At.Truncate(time.Hour)))
		shutDown() // a signal, in a real service
		return nil
	})
	fmt.Println("stopped:", err)
	// Output:
	// on the hour: true
	// stopped: context canceled
}

// The resource makes the effect of a job happen exactly once: it stores the tick together with the
// work, here behind a fencing.Gate. With SQL, both go into one transaction of sqlfence.Table.Do:
//
//	UPDATE interest SET paid = paid + 1, tick = $1 WHERE tick < $1
func Example_atLeastOnce() {
	manager := open()
	defer func() { _ = manager.Close(context.Background()) }()
	var (
		gate fencing.Gate
		tick time.Time // the last tick whose work is done
		paid int
	)
	pay := func(ctx context.Context, now schedule.Tick) error {
		return gate.Do(ctx, now.Token(), func(context.Context) error { // refuses a run that was paused
			if !now.At.After(tick) {
				fmt.Println("found it done")
				return nil
			}
			tick, paid = now.At, paid+1
			fmt.Println("done")
			return nil
		})
	}
	process := func(job func(ctx context.Context, tick schedule.Tick, stop func()) error) {
		ctx, stop := context.WithCancel(context.Background())
		_ = schedule.Run(ctx, manager, schedule.Options{
			Name:        "accounts/interest",
			Every:       24 * time.Hour,
			StartWithin: 24 * time.Hour,
			Jitter:      10 * time.Millisecond,
			CatchUp:     true, // don't wait for midnight
			AtLeastOnce: true,
			OnError:     func(tick time.Time, err error) { fmt.Println(tick, err) },
		}, func(ctx context.Context, tick schedule.Tick) error { return job(ctx, tick, stop) })
	}

	process(func(ctx context.Context, tick schedule.Tick, stop func()) error {
		err := pay(ctx, tick)
		stop() // a shutdown between the end of the work and the return of the job
		<-ctx.Done()
		return errors.Join(err, ctx.Err())
	})
	process(func(ctx context.Context, tick schedule.Tick, stop func()) error {
		defer stop()
		return pay(ctx, tick)
	})
	fmt.Println("paid:", paid)
	// Output:
	// done
	// found it done
	// paid: 1
}
