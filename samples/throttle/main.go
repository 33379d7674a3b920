// Command throttle shows how the calls to somebody else's API are kept under its
// limit across a fleet: example 5 of leases, "throttling external API calls".
//
//	go run ./throttle                                 # on a temporary SQLite file, 6 to 9 seconds
//	go run ./throttle -url redis://127.0.0.1:6379/0   # or postgres://..., sqlite:///path
//
// Three processes have payments to charge, four at a time each, and the payment
// gateway (an HTTP server in the parent process) bears three at a time. First
// they call it as they like; then each call needs a permit of a semaphore. In the
// middle of a call one process is killed. The gateway goes on with that call, as
// a real one would, and nobody gets the dead process's permits before their
// leases have run out.
//
// Look at "at a time", which the gateway counts itself: above the limit before,
// never above it with the semaphore, and less for a few seconds after the kill.
//
// The exit code is 0 only if the limit was kept, each charge of those who lived
// was made, and all permits came back. worker.go is what an application would
// have.
//
// What this does not show: a process that is paused in the middle of a call and
// wakes up after its permit was given to another. No semaphore stops that one; a
// gateway that knows fencing tokens does (see package semaphore).
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/semaphore"
	"github.com/distributedleasing/leasing/samples/internal/show"
)

const (
	processes = 3
	// killAfter is how many calls with a permit a process makes before it is
	// killed: the first one that has.
	killAfter = 4
	// gaugeEvery is how often the play prints what the gateway counts.
	gaugeEvery = 500 * time.Millisecond
)

func main() { show.Main("throttle", play, work) }

// play starts the gateway and the processes, and kills one of them.
func play(ctx context.Context, s *show.Show) (err error) {
	gateway, err := openGateway(ctx, s)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gateway.close()) }()
	s.Line("", "%d processes charge %d payments each, %d at a time; the gateway bears %d at a time (leases of %v, on %v)",
		processes, charges, crew, permits, ttl, s.Place)
	for i := range processes {
		if err := s.Start(fmt.Sprintf("w%d", i+1), gateway.url); err != nil {
			return err
		}
	}
	story := story{show: s, gateway: gateway}
	for s.Running() > 0 {
		r, err := s.Next(ctx)
		if err != nil {
			return err
		}
		if err := story.on(r); err != nil {
			return err
		}
	}
	return story.judge(ctx)
}

// story is what has happened so far.
type story struct {
	show    *show.Show
	gateway *gateway
	waiting []string // workers that have called without a permit
	before  int      // calls at a time until then
	killed  string   // a worker
}

// on prints a report and answers it.
func (t *story) on(r show.Report) error {
	switch r.Kind {
	case warmedUp:
		return t.curtain(r.Worker)
	case inCall:
		t.killed = r.Worker
		t.show.Act("kill -KILL %s, in the middle of a call", r.Worker)
		err := t.show.Kill(r.Worker)
		t.gateway.goOn()
		return err
	case gauge:
		t.show.Line("", "the gateway has %d calls at a time, at most %d so far, and has done %d", r.Number, t.gateway.most(), t.gateway.done())
	case show.Exited:
		t.show.Line(r.Worker, "is gone: %s", r.Text)
	}
	return nil
}

// curtain begins the second part when all have ended the first.
func (t *story) curtain(worker string) error {
	if t.waiting = append(t.waiting, worker); len(t.waiting) < processes {
		return nil
	}
	t.before = t.gateway.reset()
	t.show.Line("", "without permits the gateway had %d calls at a time", t.before)
	t.show.Act("from now on each call needs one of %d permits", permits)
	for _, worker := range t.waiting {
		if err := t.show.Cue(worker); err != nil {
			return err
		}
	}
	return nil
}

// judge checks what the gateway has counted.
func (t *story) judge(ctx context.Context) error {
	if t.before <= permits {
		return fmt.Errorf("without permits the gateway had no more than %d calls at a time: there was nothing to throttle", t.before)
	}
	if most := t.gateway.most(); most > permits {
		return fmt.Errorf("the gateway had %d calls at a time, with %d permits", most, permits)
	}
	if t.killed == "" {
		return errors.New("no worker was killed in the middle of a call")
	}
	for i := range processes {
		worker := fmt.Sprintf("w%d", i+1)
		if done := t.gateway.charged(worker); worker != t.killed && done != charges {
			return fmt.Errorf("%s has charged %d payments, of %d", worker, done, charges)
		}
	}
	if err := t.collect(ctx); err != nil {
		return fmt.Errorf("not all permits came back: %w", err)
	}
	t.show.OK("%d calls at a time without permits, never more than %d with them", t.before, t.gateway.most())
	t.show.OK("also not after %s was killed in the middle of a call", t.killed)
	t.show.OK("those who lived have charged all their payments, and all permits came back")
	return nil
}

// collect acquires all permits, to see that they are there.
func (t *story) collect(ctx context.Context) (err error) {
	manager, closeManager, err := t.show.Place.Manager(ctx, leasing.Options{Owner: "play", TTL: ttl})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeManager()) }()
	options := options
	options.Lease.WaitLimit = 3 * ttl
	payments, err := semaphore.New(manager, options)
	if err != nil {
		return err
	}
	for range permits {
		permit, err := payments.Acquire(ctx)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, permit.Release(ctx)) }()
	}
	return nil
}
