package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
	"github.com/distributedleasing/leasing/bench/peers/internal/stats"
)

// takeover measures how long after the end of a killed holder's lock the next
// one has it.
func takeover(ctx context.Context, s *site) (metrics, error) {
	client, err := s.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	var late []time.Duration
	stuck, disturbed := 0, 0
	for i := 0; len(late)+stuck < s.Variant.Samples; i++ {
		took, err := s.killOne(ctx, client, s.name(i))
		switch {
		case errors.Is(err, errStuck):
			stuck++
		case errors.Is(err, errDisturbed) && disturbed < s.Variant.Samples:
			disturbed++
		case err != nil:
			return nil, err
		default:
			late = append(late, took)
		}
	}
	m := metrics{"p50": stats.Median(late) / float64(time.Millisecond), "stuck": float64(stuck)}
	if len(late) > 0 {
		m["worst"] = millis(slices.Max(late))
	}
	return m, nil
}

// errStuck is a waiter that still has not got a name when it has long been free.
var errStuck = errors.New("the next one never got the name")

// errDisturbed is a kill from which nothing can be learned: the machine stood
// still for so long that a lock ran out under its living holder.
var errDisturbed = errors.New("the next one had the lock before its holder was dead")

// killOne starts a holder and lets client wait for what it has, then kills it
// after its first renewal, at any time between two.
func (s *site) killOne(ctx context.Context, client lockers.Locker, name string) (time.Duration, error) {
	victim, err := startHolder(ctx, s.job, name)
	if err != nil {
		return 0, err
	}
	defer victim.kill()
	waiting, cancel := context.WithTimeout(ctx, 3*s.Variant.TTL+10*time.Second)
	defer cancel()
	arrivals := make(chan arrival, 1)
	go func() {
		lock, err := client.Acquire(waiting, name)
		arrivals <- arrival{lock: lock, at: time.Now(), err: err}
	}()
	if err := pause(ctx, 6*s.Variant.TTL/10+rand.N(s.Variant.TTL)); err != nil {
		return 0, err
	}
	victim.kill()
	end, unclear := s.endOf(ctx, client, name)
	next := <-arrivals // comes at the latest when waiting ends
	if next.err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return 0, errStuck
	}
	if next.err != nil {
		return 0, next.err
	}
	if err := errors.Join(unclear, next.lock.Release(ctx)); err != nil {
		return 0, err
	}
	late := next.at.Sub(end)
	if late < -s.Variant.TTL/10 {
		return 0, errDisturbed
	}
	return late, nil
}

// endOf asks the servers when the lock of a dead process ends. What it sent just
// before its death has arrived by then: a server reads the rest of a connection
// before it sees its end, and that takes no longer than the pause.
func (s *site) endOf(ctx context.Context, client lockers.Locker, name string) (time.Time, error) {
	if err := pause(ctx, 20*time.Millisecond); err != nil {
		return time.Time{}, err
	}
	asked := time.Now()
	left, err := client.FreeIn(ctx, s.servers, name)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the end of the lock: %w", err)
	}
	if left == 0 {
		return time.Time{}, errDisturbed
	}
	return asked.Add(time.Since(asked) / 2).Add(left), nil
}
