package main

import (
	"context"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// idleWaiters is the number of clients that wait for a name that stays
// held.
const idleWaiters = 100

// idle measures the cost of waiting. The holder's client is not counted.
func idle(ctx context.Context, b *bench) (metrics, error) {
	owner, err := b.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	clients, err := b.clients(ctx, idleWaiters, false)
	if err != nil {
		return nil, err
	}
	lock, err := owner.Acquire(ctx, b.name("name"))
	if err != nil {
		return nil, err
	}
	lock.Keep()
	used, err := b.during(ctx, b.Size.IdleWindow, clients, func(waiting context.Context, client lockers.Locker, _ int) error {
		second, err := client.Acquire(waiting, b.name("name"))
		if err == nil {
			_ = second.Release(context.WithoutCancel(waiting))
			return errTwo
		}
		return err // perhaps because the measurement has ended
	})
	if err != nil {
		return nil, err
	}
	return used.perMinute(), lock.Release(ctx)
}
