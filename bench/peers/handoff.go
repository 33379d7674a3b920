package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/bench/peers/internal/lockers"
	"github.com/distributedleasing/leasing/bench/peers/internal/stats"
)

// handoff measures the time from one's release to the next one's lock.
func handoff(ctx context.Context, s *site) (metrics, error) {
	clients, err := s.openFor(ctx, s.Variant.Count+1)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	q := &relay{name: s.name("name"), clients: clients, arrivals: make(chan arrival, len(clients))}
	defer q.leave()
	defer cancel()
	holder, err := q.start(ctx)
	if err != nil {
		return nil, err
	}
	var took []time.Duration
	used, err := s.measured(ctx, func() error {
		took, err = q.pass(ctx, &holder, s.Variant.Samples)
		return err
	})
	if err != nil {
		return nil, err
	}
	return latency(took, used), holder.lock.Release(ctx)
}

// latency is what a series of hand-offs took.
func latency(took []time.Duration, used bill) metrics {
	return metrics{
		"p50":      stats.Median(took) / float64(time.Millisecond),
		"p99":      stats.Quantile(took, 0.99) / float64(time.Millisecond),
		"commands": float64(used.commands) / float64(len(took)),
	}
}

// relay is one name that is handed around.
type relay struct {
	name    string
	clients []lockers.Locker
	waiting sync.WaitGroup
	// arrivals has room for all clients, so that none has to be waited for.
	arrivals chan arrival
}

// arrival is a waiter that waits no more.
type arrival struct {
	who  int
	lock lockers.Lock
	at   time.Time
	err  error
}

// start gives the name to the first, and lets the others wait.
func (q *relay) start(ctx context.Context) (arrival, error) {
	lock, err := tryAgain(ctx, q.clients[0], q.name)
	if err != nil {
		return arrival{}, err
	}
	for i := 1; i < len(q.clients); i++ {
		q.wait(ctx, i)
	}
	return arrival{lock: lock}, nil
}

func (q *relay) wait(ctx context.Context, who int) {
	q.waiting.Go(func() {
		lock, err := q.clients[who].Acquire(ctx, q.name)
		q.arrivals <- arrival{who: who, lock: lock, at: time.Now(), err: err}
	})
}

// pass hands the name on n times and returns how long each took. Who has
// released waits again only when the next one has it: it must not overtake.
func (q *relay) pass(ctx context.Context, holder *arrival, n int) ([]time.Duration, error) {
	took := make([]time.Duration, 0, n)
	for range n {
		if err := pause(ctx, holding()); err != nil {
			return nil, err
		}
		released := time.Now()
		if err := holder.lock.Release(ctx); err != nil {
			return nil, err
		}
		next, err := q.next()
		if err != nil {
			return nil, err
		}
		if early := released.Sub(next.at); early > 0 {
			return nil, fmt.Errorf("two had the name: the next came %v before the release", early)
		}
		took = append(took, next.at.Sub(released))
		q.wait(ctx, holder.who)
		*holder = next
	}
	return took, nil
}

// next is who has the name next. Its wait ends at the latest with its context.
func (q *relay) next() (arrival, error) {
	limit := time.NewTimer(handoffLimit)
	defer limit.Stop()
	select {
	case next := <-q.arrivals:
		return next, next.err
	case <-limit.C:
		return arrival{}, errStuck
	}
}

// handoffLimit is much longer than any library lets a free name lie.
const handoffLimit = 20 * time.Second

// leave waits for the waiters, whose context has ended. One may have got the
// name all the same.
func (q *relay) leave() {
	q.waiting.Wait()
	close(q.arrivals)
	for a := range q.arrivals {
		if a.err == nil {
			_ = a.lock.Release(context.Background())
		}
	}
}

// holding is for how long a holder keeps the others waiting: by chance, over
// more than the 100 ms at which some of them ask.
func holding() time.Duration { return 20*time.Millisecond + rand.N(100*time.Millisecond) }
