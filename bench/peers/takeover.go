package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/bench/internal/meter"
	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

var (
	// errStuck means that a waiter did not get a name that had long been free.
	errStuck = errors.New("the next one never got the name")
	// errTooLate means that a kill measured nothing: the machine stalled for so long that the lock
	// ran out before its holder was killed.
	errTooLate = errors.New("the lock had ended before its holder was killed")
)

// takeover measures the time from the end of a killed holder's lock until the next
// holder has the name. All kills are independent, and happen at about the same time.
func takeover(ctx context.Context, b *bench) (metrics, error) {
	b.ttl = b.Size.KillTTL
	client, err := b.open(ctx, nil)
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	var delays []time.Duration
	stuck := 0.0
	err = meter.ForEach(b.Size.Kills, func(i int) error {
		delay, err := b.killOne(ctx, client, b.name(i))
		mu.Lock()
		defer mu.Unlock()
		switch {
		case errors.Is(err, errStuck):
			stuck++
		case errors.Is(err, errTooLate):
		case err != nil:
			return err
		default:
			delays = append(delays, delay)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if len(delays) == 0 && stuck == 0 {
		return nil, errTooLate
	}
	m := metrics{"p50": median(delays) / float64(time.Millisecond), "stuck": stuck}
	if len(delays) > 0 {
		m["worst"] = float64(slices.Max(delays)) / float64(time.Millisecond)
	}
	return m, nil
}

// killOne starts a holder and lets client wait for the name, then kills the holder
// at a random time after its first renewal.
func (b *bench) killOne(ctx context.Context, client lockers.Locker, name string) (time.Duration, error) {
	holder, err := b.start(ctx, name, true)
	if err != nil {
		return 0, err
	}
	defer holder.kill()
	if _, ok := <-holder.had; !ok {
		return 0, errors.New("a holder did not get its name")
	}
	waiting, cancel := context.WithTimeout(ctx, 3*b.ttl+10*time.Second)
	defer cancel()
	type acquired struct {
		lock lockers.Lock
		at   time.Time
		err  error
	}
	next := make(chan acquired, 1)
	go func() {
		lock, err := client.Acquire(waiting, name)
		next <- acquired{lock, time.Now(), err}
	}()
	if err := pause(ctx, time.Duration(lockers.RenewAt*float64(b.ttl))+rand.N(b.ttl)); err != nil {
		return 0, err
	}
	holder.kill()
	end, unclear := b.endOf(ctx, client, name)
	got := <-next // blocks at most until waiting ends
	if got.err != nil && waiting.Err() != nil && ctx.Err() == nil {
		return 0, errStuck
	}
	if got.err != nil {
		return 0, got.err
	}
	if err := errors.Join(unclear, got.lock.Release(ctx)); err != nil {
		return 0, err
	}
	delay := got.at.Sub(end)
	if delay < -b.ttl/10 { // then endOf found the next holder's lock
		return 0, errTooLate
	}
	return delay, nil
}

// endOf asks the servers when the lock of a dead process ends. It pauses first, so that the last
// requests of the process have arrived: a server reads the rest of a connection before it
// notices the end, and that takes no longer than the pause.
func (b *bench) endOf(ctx context.Context, client lockers.Locker, name string) (time.Time, error) {
	if err := pause(ctx, 20*time.Millisecond); err != nil {
		return time.Time{}, err
	}
	asked := time.Now()
	left, err := client.(lockers.Expiring).FreeIn(ctx, name)
	if err != nil {
		return time.Time{}, fmt.Errorf("ask for the end of the lock: %w", err)
	}
	if left == 0 {
		return time.Time{}, errTooLate
	}
	return asked.Add(time.Since(asked) / 2).Add(left), nil
}
