package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// errTwo ends a measurement, because the measured peer does not exclude other
// holders.
var errTwo = errors.New("two had the name at the same time")

// contended measures clients that compete for one name.
func contended(clients int) func(context.Context, *bench) (metrics, error) {
	return func(ctx context.Context, b *bench) (metrics, error) {
		c := &contest{bench: b, hold: func() time.Duration { return time.Millisecond }}
		used, err := c.run(ctx, b.Size.Window, clients, !b.peer.Local) // a mutex is shared by all clients
		if err != nil {
			return nil, err
		}
		n := float64(len(c.handoffs))
		return metrics{
			"handoffs": n / used.elapsed.Seconds(),
			"fairness": jain(c.sections),
			"commands": float64(used.commands) / n,
		}, nil
	}
}

// handoff measures the time from a release to the next holder's lock. Each holder
// keeps the name for a random time, whose range covers the 100 ms between the polls
// of some peers.
func handoff(waiters int, separate bool) func(context.Context, *bench) (metrics, error) {
	return func(ctx context.Context, b *bench) (metrics, error) {
		c := &contest{bench: b, yields: true, hold: func() time.Duration { return 20*time.Millisecond + rand.N(100*time.Millisecond) }}
		if _, err := c.run(ctx, b.Size.Handoffs, waiters+1, separate); err != nil {
			return nil, err
		}
		if len(c.handoffs) == 0 {
			return nil, errors.New("the name was never handed on")
		}
		return metrics{"p50": median(c.handoffs) / float64(time.Millisecond)}, nil
	}
}

// contest is one name that goroutines compete for, with the measured hand-offs.
type contest struct {
	bench  *bench
	hold   func() time.Duration // how long each holds the name
	yields bool                 // a goroutine that has released the name tries again only when another has the name

	mu       sync.Mutex
	held     bool
	last     int           // the number of the last holder, plus one
	released time.Time     // when the last holder called Release
	handedOn chan struct{} // closed when another gets the name
	handoffs []time.Duration
	sections []int64 // how often each had the name
}

func (c *contest) run(ctx context.Context, window time.Duration, n int, separate bool) (usage, error) {
	clients, err := c.bench.clients(ctx, n, separate)
	if err != nil {
		return usage{}, err
	}
	c.handedOn, c.sections = make(chan struct{}), make([]int64, n)
	return c.bench.during(ctx, window, clients, c.compete)
}

// compete acquires and releases the name until running ends.
func (c *contest) compete(running context.Context, client lockers.Locker, who int) error {
	for running.Err() == nil {
		lock, err := client.Acquire(running, c.bench.name("name"))
		if err != nil {
			return err // perhaps because the measurement has ended
		}
		if err := c.enter(who); err != nil {
			return err
		}
		time.Sleep(c.hold())
		handedOn := c.leave()
		if err := lock.Release(context.WithoutCancel(running)); err != nil && running.Err() == nil {
			return err
		}
		if !c.yields {
			continue
		}
		select {
		case <-handedOn:
		case <-running.Done():
		}
	}
	return nil
}

// enter records the new holder. It locks mu.
func (c *contest) enter(who int) error {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held {
		return errTwo
	}
	c.held = true
	measuring := c.bench.measuring.Load()
	if measuring {
		c.sections[who]++
	}
	if c.last != who+1 {
		if measuring {
			c.handoffs = append(c.handoffs, now.Sub(c.released))
		}
		c.last = who + 1
		close(c.handedOn)
		c.handedOn = make(chan struct{})
	}
	return nil
}

// leave records that the name is about to be released. It locks mu.
func (c *contest) leave() (handedOn <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held, c.released = false, time.Now()
	return c.handedOn
}
