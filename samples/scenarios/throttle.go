package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/semaphore"
	"github.com/distributedleasing/leasing/samples/internal/runner"
)

// throttle keeps the calls to an external API under its limit across
// a fleet: example 5 of leases, "throttling external API calls".
//
// Three processes have payments to charge, four at a time each, and the payment
// gateway (an HTTP server in the parent process) bears three at a time. First
// they call it as they like; then each call needs a permit of a semaphore. In the
// middle of a call one process is killed. The gateway goes on with that call, as
// a real one would, and no other process gets the dead process's permits before their
// leases have run out.
//
// Look at "at a time", which the gateway counts itself: above the limit before, and
// never above it with the semaphore.
//
// The scenario does not show a process that is paused in the middle of a call and
// wakes up after its permit was given to another process. No semaphore stops such a call; a
// gateway that checks fencing tokens stops it (see package semaphore).
var throttle = runner.Scenario{
	Name: "throttle", About: "at most so many calls of an API at a time, across a fleet",
	// Far longer than a call, so that no call outlives the permit of a process that
	// died in the middle of the call.
	TTL:     3 * time.Second,
	Control: controlThrottle, Work: workThrottle,
}

const (
	processes = 3
	// permits is the number of calls that the gateway bears at a time.
	permits = 3
	// team is the number of payments that a process charges at a time, if permits allow, and
	// charges the number of all its payments.
	team, charges = 4, 32
	// killAfter is the number of calls with a permit that a process makes before it is
	// killed. The first process with so many calls is killed.
	killAfter = 4
	// callTakes is the time that the gateway needs for a payment. Once it has begun it
	// goes on, whatever becomes of the caller.
	callTakes = 150 * time.Millisecond
)

// payments are the same in all processes.
var payments = semaphore.Options{Name: "external/payments/throttle", Permits: permits}

// The kinds of the reports of workers and of the gateway.
const (
	warmedUp = "warmed up" // has called without permits; waits to be continued
	inCall   = "in call"   // of the gateway: the worker is in the call in which it is killed
)

func workThrottle(ctx context.Context, w *runner.Worker) error {
	throttled, err := semaphore.New(w.Manager, payments)
	if err != nil {
		return err
	}
	if err := chargeAll(ctx, team, func(ctx context.Context, n int) error { return charge(ctx, w, trial, n) }); err != nil {
		return err
	}
	w.SayAndWait(warmedUp, 0, "")
	return chargeAll(ctx, charges, func(ctx context.Context, n int) error { return chargeWithPermit(ctx, w, throttled, n) })
}

// chargeWithPermit charges a payment when it has a permit. If the
// permit is lost in the middle, ctx ends, which ends the call. The gateway may
// have charged nevertheless, so it is asked for the same payment again, and
// tells a repeated number (an "idempotency key") from a new number.
func chargeWithPermit(ctx context.Context, w *runner.Worker, throttled *semaphore.Semaphore, n int) error {
	err := leasing.ErrLost
	for errors.Is(err, leasing.ErrLost) {
		err = throttled.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
			return charge(ctx, w, w.Name, n)
		})
	}
	return err
}

// chargeAll charges payments, team of them at a time.
func chargeAll(ctx context.Context, n int, charge func(ctx context.Context, n int) error) error {
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(team)
	for i := range n {
		all.Go(func() error { return charge(ctx, i) })
	}
	return all.Wait()
}

// charge calls the gateway.
func charge(ctx context.Context, w *runner.Worker, worker string, n int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/%s/%d", w.Arg, worker, n), http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("the gateway answers %s", response.Status)
	}
	return nil
}

// gateway is the external API. It counts the calls that it has at a time.
type gateway struct {
	onCall func(worker string) // called once, in the middle of a worker's call number killAfter
	once   sync.Once

	mu        sync.Mutex
	now, most int
	charged   map[string]map[string]bool // payments, by worker
}

// trial is in place of a worker in calls that charge nothing.
const trial = "trial"

func (g *gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{worker}/{number}", func(_ http.ResponseWriter, r *http.Request) {
		worker := r.PathValue("worker")
		if g.begin(worker, r.PathValue("number")) == killAfter && worker != trial {
			g.once.Do(func() { g.onCall(worker) })
		}
		<-time.After(callTakes)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.now-- // it answers when the call is no longer counted
	})
	return mux
}

// begin charges a payment, once, and returns how many the worker has charged. It locks
// mu.
func (g *gateway) begin(worker, number string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now++
	g.most = max(g.most, g.now)
	if g.charged[worker] == nil {
		g.charged[worker] = map[string]bool{}
	}
	g.charged[worker][number] = true
	return len(g.charged[worker])
}

// peak returns the most calls at a time since the last look. It locks mu.
func (g *gateway) peak() (most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	most, g.most = g.most, g.now
	return most
}

func controlThrottle(ctx context.Context, s *runner.Runner) error {
	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{}) // closed when the worker has been killed
	g := &gateway{charged: map[string]map[string]bool{}, onCall: func(worker string) {
		s.Send(ctx, runner.Report{Worker: worker, Kind: inCall})
		select {
		case <-gone:
		case <-ctx.Done():
		}
	}}
	server := httptest.NewServer(g.handler())
	defer server.Close() // waits for the calls
	defer cancel()

	s.Announce("%d processes charge %d payments each, %d at a time; the gateway bears %d at a time", processes, charges, team, permits)
	var waiting []string // workers that have called without a permit
	before, killed := 0, ""
	if err := s.RunWorkers(ctx, processes, server.URL, func(r runner.Report) {
		switch r.Kind {
		case inCall:
			killed = r.Worker
			s.Announce("kill -KILL %s, in the middle of a call", r.Worker)
			defer close(gone)
			s.Kill(r.Worker)
		case warmedUp:
			if waiting = append(waiting, r.Worker); len(waiting) < processes {
				return
			}
			before = g.peak()
			s.Announce("without permits the gateway had %d calls at a time; from now on each needs one of %d permits", before, permits)
			for _, worker := range waiting {
				s.Continue(worker)
			}
		}
	}); err != nil {
		return err
	}
	return checkThrottle(ctx, s, g, before, killed)
}

// checkThrottle checks the counts of the gateway.
func checkThrottle(ctx context.Context, s *runner.Runner, g *gateway, before int, killed string) (err error) {
	most := g.peak()
	switch {
	case before <= permits:
		return fmt.Errorf("without permits the gateway had no more than %d calls at a time: there was nothing to throttle", before)
	case most > permits:
		return fmt.Errorf("the gateway had %d calls at a time, with %d permits", most, permits)
	case killed == "":
		return errors.New("no worker was killed in the middle of a call")
	}
	for i := range processes {
		worker := fmt.Sprintf("w%d", i+1)
		if done := len(g.charged[worker]); worker != killed && done != charges {
			return fmt.Errorf("%s has charged %d payments, of %d", worker, done, charges)
		}
	}
	options := payments
	options.Lease.WaitLimit = 3 * s.TTL
	all, err := semaphore.New(s.Manager, options)
	if err != nil {
		return err
	}
	for range permits {
		permit, err := all.Acquire(ctx)
		if err != nil {
			return fmt.Errorf("not all permits came back: %w", err)
		}
		defer func() { err = errors.Join(err, permit.Release(ctx)) }()
	}
	s.OK("%d calls at a time without permits, never more than %d with them", before, most)
	s.OK("also not after %s was killed in the middle of a call", killed)
	s.OK("those who lived have charged all their payments, and all permits came back")
	return nil
}
