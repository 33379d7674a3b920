package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
	"github.com/distributedleasing/leasing/bench/peers/internal/wire"
)

// bench holds the state of a measurement: its opened clients, and its counters.
type bench struct {
	task
	peer      lockers.Peer
	ttl       time.Duration
	counter   wire.Counter
	store     lockers.Store
	opened    []lockers.Locker
	measuring atomic.Bool // during is measuring the usage
}

func newBench(t task) (*bench, error) {
	on := lockers.Backends[t.Backend]
	at := slices.IndexFunc(on.Peers, func(p lockers.Peer) bool { return p.Name == t.Peer })
	if at < 0 {
		return nil, fmt.Errorf("there is no peer %q", t.Peer)
	}
	store, err := on.Open(t.URL)
	return &bench{task: t, peer: on.Peers[at], ttl: t.Size.TTL, store: store}, err
}

// name returns one of the measurement's own names.
func (b *bench) name(parts ...any) string {
	name := b.Prefix
	for _, part := range parts {
		name += fmt.Sprintf("/%v", part)
	}
	return name
}

// open makes one client of the peer; close closes the client.
func (b *bench) open(ctx context.Context, counter *wire.Counter) (lockers.Locker, error) {
	locker, err := b.peer.Open(ctx, lockers.Config{URL: b.URL, TTL: b.ttl, Counter: counter})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", b.peer.Name, err)
	}
	b.opened = append(b.opened, locker)
	return locker, nil
}

// clients returns counted clients for n users: separate clients, or the same client for all.
func (b *bench) clients(ctx context.Context, n int, separate bool) ([]lockers.Locker, error) {
	first, err := b.open(ctx, &b.counter)
	clients := slices.Repeat([]lockers.Locker{first}, n)
	for i := 1; i < n && separate && err == nil; i++ {
		clients[i], err = b.open(ctx, &b.counter)
	}
	return clients, err
}

// close closes the clients and deletes their data on the servers.
func (b *bench) close(ctx context.Context) (err error) {
	for _, locker := range b.opened {
		err = errors.Join(err, locker.Close())
	}
	return errors.Join(err, b.store.Sweep(ctx, b.Prefix), b.store.Close())
}

// during calls work for all clients at the same time, and measures their usage in a
// window after the settling time. work continues until its context ends; if it
// returns an error the measurement ends.
func (b *bench) during(ctx context.Context, window time.Duration, clients []lockers.Locker,
	work func(ctx context.Context, client lockers.Locker, who int) error,
) (used usage, err error) {
	running, stop := context.WithCancelCause(ctx)
	var all sync.WaitGroup
	for i, client := range clients {
		all.Go(func() {
			if err := work(running, client, i); err != nil {
				stop(err)
			}
		})
	}
	if err = pause(running, b.Size.Settle); err == nil {
		used, err = b.over(running, func() error {
			b.measuring.Store(true)
			defer b.measuring.Store(false)
			return pause(running, window)
		})
	}
	failure := context.Cause(running)
	stop(nil)
	all.Wait()
	return used, cmp.Or(failure, err)
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
