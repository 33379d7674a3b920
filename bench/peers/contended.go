package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
	"github.com/distributedleasing/leasing/bench/peers/internal/stats"
)

// errTwo is the end of a measurement: what is measured is no lock.
var errTwo = errors.New("two had the name at the same time")

// section is for how long a fighter holds the name.
const section = time.Millisecond

// contended measures a fight for one name.
func contended(ctx context.Context, s *site) (metrics, error) {
	clients, err := s.openFor(ctx, s.Variant.Count)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancelCause(ctx)
	a := &arena{name: s.name("name"), shares: make([]atomic.Int64, len(clients))}
	var all sync.WaitGroup
	for i, client := range clients {
		all.Go(func() {
			if err := a.fight(running, client, i); err != nil {
				stop(err)
			}
		})
	}
	var score score
	used, err := s.measured(running, func() error {
		from := a.score()
		err := pause(running, s.Variant.For)
		score = a.score().since(from)
		return err
	})
	failure := context.Cause(running)
	stop(nil)
	all.Wait()
	if err = errors.Join(failure, err); err != nil {
		return nil, err
	}
	return score.metrics(used), nil
}

// arena is the name that is fought for, and what came of it.
type arena struct {
	name     string
	inside   atomic.Int32
	last     atomic.Int64 // who had it last, plus one
	handoffs atomic.Int64
	shares   []atomic.Int64 // sections of each
}

// fight goes on until running ends. The lock may end with it.
func (a *arena) fight(running context.Context, client lockers.Locker, who int) error {
	for {
		lock, err := client.Acquire(running, a.name)
		if running.Err() == nil && err != nil {
			return err
		}
		if err != nil {
			return nil //nolint:nilerr // the end of the fight
		}
		if err := a.hold(who); err != nil {
			return err
		}
		if err := lock.Release(context.WithoutCancel(running)); err != nil && running.Err() == nil {
			return err
		}
	}
}

func (a *arena) hold(who int) error {
	if a.inside.Add(1) != 1 {
		return errTwo
	}
	if a.last.Swap(int64(who)+1) != int64(who)+1 {
		a.handoffs.Add(1)
	}
	time.Sleep(section)
	a.shares[who].Add(1)
	a.inside.Add(-1)
	return nil
}

// score is what has been fought out up to a moment, or between two.
type score struct {
	handoffs int64
	shares   []int64
}

func (a *arena) score() score {
	s := score{handoffs: a.handoffs.Load(), shares: make([]int64, len(a.shares))}
	for i := range a.shares {
		s.shares[i] = a.shares[i].Load()
	}
	return s
}

func (s score) since(from score) score {
	d := score{handoffs: s.handoffs - from.handoffs, shares: make([]int64, len(s.shares))}
	for i := range d.shares {
		d.shares[i] = s.shares[i] - from.shares[i]
	}
	return d
}

func (s score) metrics(used bill) metrics {
	var sections, starved int64
	for _, share := range s.shares {
		sections += share
		if share == 0 {
			starved++
		}
	}
	m := used.per(sections)
	m["handoffs"] = float64(s.handoffs) / used.elapsed.Seconds()
	m["sections"] = float64(sections) / used.elapsed.Seconds()
	m["commands"] = float64(used.commands) / float64(s.handoffs)
	m["fairness"] = stats.Jain(s.shares)
	m["starved"] = float64(starved)
	return m
}
