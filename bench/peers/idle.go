package main

import (
	"cmp"
	"context"
	"sync"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// idle measures what it costs to wait. The holder's client is not counted.
func idle(ctx context.Context, s *site) (metrics, error) {
	owner, err := s.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	clients, err := s.openFor(ctx, s.Variant.Count)
	if err != nil {
		return nil, err
	}
	lock, err := tryAgain(ctx, owner, s.name("name"))
	if err != nil {
		return nil, err
	}
	lock.Keep()
	waiting, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	for _, client := range clients {
		all.Go(func() { stop(waitInVain(waiting, client, s.name("name"))) })
	}
	used, err := s.measured(waiting, func() error { return pause(waiting, s.Variant.For) })
	early := context.Cause(waiting)
	stop(nil)
	all.Wait()
	if err = cmp.Or(early, err); err != nil {
		return nil, err
	}
	return used.perMinute(), lock.Release(ctx)
}

// waitInVain waits for a name that is not to be had, until waiting ends. To come
// back before is an error, even without one of the library.
func waitInVain(waiting context.Context, client lockers.Locker, name string) error {
	lock, err := client.Acquire(waiting, name)
	if err != nil {
		return err
	}
	_ = lock.Release(context.WithoutCancel(waiting))
	return errTwo
}
