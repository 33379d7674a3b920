package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
	"github.com/distributedleasing/leasing/bench/peers/internal/wire"
)

// job is one measurement, as the parent hands it to a child process.
type job struct {
	Workload string
	Peer     string
	URL      string // of the peer's servers
	Prefix   string // of the names it uses
	Variant  variant
}

// variant is one way to run a workload. Each takes the fields it needs.
type variant struct {
	Label    string
	Count    int           // goroutines, leases or waiters
	Separate bool          // each with a client of its own
	TTL      time.Duration // of the locks
	Settle   time.Duration // before measuring
	For      time.Duration // of measuring
	Samples  int           // instead of For
}

// metrics are what a measurement found, by the keys of the workload's columns.
type metrics map[string]float64

// finite drops what could not be found: there is no NaN in JSON.
func (m metrics) finite() metrics {
	for key, value := range m {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			delete(m, key)
		}
	}
	return m
}

func newPrefix() string { return "bench-peers:" + rand.Text() }

// site is where a job runs: what it opened, and what is counted.
type site struct {
	job
	peer    lockers.Peer
	counter wire.Counter
	servers []*redis.Client // for questions; not counted
	opened  []lockers.Locker
}

func newSite(j job) (*site, error) {
	peer, err := peerByName(j.Peer)
	if err != nil {
		return nil, err
	}
	s := &site{job: j, peer: peer}
	if peer.Servers > 0 {
		s.servers, err = lockers.Clients(j.URL, nil)
	}
	return s, err
}

// name returns one of the job's own names.
func (s *site) name(parts ...any) string {
	name := s.Prefix
	for _, part := range parts {
		name += fmt.Sprintf("/%v", part)
	}
	return name
}

// open makes one client of the peer, which close closes.
func (s *site) open(ctx context.Context, counter *wire.Counter) (lockers.Locker, error) {
	locker, err := s.peer.Open(ctx, lockers.Config{URL: s.URL, TTL: s.Variant.TTL, Counter: counter})
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", s.peer.Name, err)
	}
	s.opened = append(s.opened, locker)
	return locker, nil
}

// openFor returns the counted clients of n users: one each, or one for all, as
// it is always for a lock in memory.
func (s *site) openFor(ctx context.Context, n int) ([]lockers.Locker, error) {
	clients := make([]lockers.Locker, n)
	for i := range clients {
		if i > 0 && !(s.Variant.Separate && s.peer.Servers > 0) {
			clients[i] = clients[0]
			continue
		}
		locker, err := s.open(ctx, &s.counter)
		if err != nil {
			return nil, err
		}
		clients[i] = locker
	}
	return clients, nil
}

func (s *site) close() error {
	var failed error
	for _, locker := range s.opened {
		failed = errors.Join(failed, locker.Close())
	}
	for _, server := range s.servers {
		failed = errors.Join(failed, server.Close())
	}
	return failed
}

// pause waits, or less if ctx ends.
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
