package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
)

// publish is the floor of a hand-off: nothing but the message that it is one's
// turn, from one connection to another.
var publish = lockers.Peer{Name: "publish", About: "floor: a bare PUBLISH to one of the subscribers", Servers: 1}

// wakeup measures the time from a PUBLISH to its arrival, with as many
// subscribers as there would be waiters.
func wakeup(ctx context.Context, s *site) (metrics, error) {
	clients, err := lockers.Clients(s.URL, &s.counter)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	e := &ears{client: clients[0], woken: make(chan time.Time)}
	defer e.close()
	defer cancel()
	if err := e.listen(ctx, s); err != nil {
		return nil, err
	}
	took := make([]time.Duration, s.Variant.Samples)
	used, err := s.measured(ctx, func() error {
		for i := range took {
			if err := pause(ctx, holding()); err != nil {
				return err
			}
			if took[i], err = e.wake(ctx); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return latency(took, used), nil
}

// ears are subscribers, each with a channel of its own.
type ears struct {
	client   *redis.Client
	channels []string
	woken    chan time.Time
	open     []*redis.PubSub
	reading  sync.WaitGroup
}

// listen subscribes to all channels: on one connection each, or on one for all.
func (e *ears) listen(ctx context.Context, s *site) error {
	for i := range s.Variant.Count {
		e.channels = append(e.channels, s.name("channel", i))
	}
	groups := [][]string{e.channels}
	if s.Variant.Separate {
		groups = nil
		for i := range e.channels {
			groups = append(groups, e.channels[i:i+1])
		}
	}
	for _, group := range groups {
		if err := e.subscribe(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

func (e *ears) subscribe(ctx context.Context, channels []string) error {
	subscription := e.client.Subscribe(ctx, channels...)
	e.open = append(e.open, subscription)
	for range channels {
		if _, err := subscription.Receive(ctx); err != nil { // the confirmations
			return fmt.Errorf("subscribe: %w", err)
		}
	}
	e.reading.Go(func() {
		for {
			if _, err := subscription.ReceiveMessage(ctx); err != nil {
				return // closed
			}
			select {
			case e.woken <- time.Now():
			case <-ctx.Done():
				return
			}
		}
	})
	return nil
}

// wake wakes one and returns how long that took.
func (e *ears) wake(ctx context.Context) (time.Duration, error) {
	sent := time.Now()
	heard, err := e.client.Publish(ctx, e.channels[rand.N(len(e.channels))], "turn").Result()
	if err != nil {
		return 0, err
	}
	if heard != 1 {
		return 0, errors.New("nobody heard the wake-up")
	}
	select {
	case at := <-e.woken:
		return at.Sub(sent), nil
	case <-ctx.Done():
		return 0, ctx.Err()
	}
}

func (e *ears) close() {
	for _, subscription := range e.open {
		_ = subscription.Close()
	}
	e.reading.Wait()
	_ = e.client.Close()
}
