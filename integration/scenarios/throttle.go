package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/integration/scenarios/runner"
	"github.com/distributedleasing/leasing/recipes/semaphore"
)

// throttle runs a payment gateway (an HTTP server), which can handle three calls at a time. First the processes call it without
// a limit. Then each call needs a permit of a semaphore, and one process is killed in the middle of a call. Like a real gateway,
// it finishes that call.
//
// Look at the number of calls "at a time", as counted by the gateway: without permits it exceeds the limit, but never with
// permits.
var throttle = runner.Scenario{
	Name: "throttle", About: "at most so many calls of an API at a time, across a fleet", Sample: "scenarios",
	// Far longer than a call, so that no call outlives the permit of a process that died in the middle of the call.
	TTL:     3 * time.Second,
	Control: controlThrottle,
}

const (
	processes = 3
	// permits is the number of calls that the gateway can handle at a time, as in the sample.
	permits = 3
	// charges is the number of payments of a process, as in the sample. A process makes up to four calls at a time, each with a
	// permit in the second part.
	charges = 32
	// killAfter is a number of calls with a permit. The first process that makes this many calls is killed during the last call.
	killAfter = 4
	// callTakes is the time that the gateway needs for a payment. A payment that has begun
	// continues, whatever happens to the caller.
	callTakes = 150 * time.Millisecond
)

// inCall is the kind of the gateway's report that a worker is in the call in which it will be killed.
const inCall = "in call"

// gateway is the external API. It counts its concurrent calls.
type gateway struct {
	onCall func(worker string) // called once, in the middle of a worker's call number killAfter, unless nil
	once   sync.Once

	mu        sync.Mutex
	now, most int
	charged   map[string]map[string]bool // payments, by worker
}

func (g *gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /{worker}/{number}", func(_ http.ResponseWriter, r *http.Request) {
		worker := r.PathValue("worker")
		if g.begin(worker, r.PathValue("number")) == killAfter && g.onCall != nil {
			g.once.Do(func() { g.onCall(worker) })
		}
		<-time.After(callTakes)
		g.mu.Lock()
		defer g.mu.Unlock()
		g.now-- // the gateway answers only after this
	})
	return mux
}

// begin charges a payment, once, and returns the number of the worker's payments. It
// locks mu.
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

func controlThrottle(ctx context.Context, s *runner.Runner) error {
	free := &gateway{charged: map[string]map[string]bool{}}
	s.Announce("%d processes charge payments, each four at a time; the gateway bears %d at a time", processes, permits)
	server := httptest.NewServer(free.handler())
	err := s.RunWorkers(ctx, processes, func(runner.Report) bool { return true }, "-permits", "0", "-payments", "8", "throttle", server.URL)
	server.Close() // waits for the calls
	if err != nil {
		return err
	}
	s.Announce("without permits the gateway had %d calls at a time; from now on each needs one of %d permits", free.most, permits)

	ctx, cancel := context.WithCancel(ctx)
	gone := make(chan struct{}) // closed when the worker has been killed
	g := &gateway{charged: map[string]map[string]bool{}, onCall: func(worker string) {
		s.Send(ctx, runner.Report{Worker: worker, Kind: inCall})
		select {
		case <-gone:
		case <-ctx.Done():
		}
	}}
	server = httptest.NewServer(g.handler())
	defer server.Close()
	defer cancel()
	killed := ""
	if err := s.RunWorkers(ctx, processes, func(r runner.Report) bool {
		if r.Kind == inCall {
			killed = r.Worker
			s.Announce("kill -KILL %s, in the middle of a call", r.Worker)
			s.Kill(r.Worker)
			close(gone)
		}
		return r.Kind != inCall
	}, "throttle", server.URL); err != nil {
		return err
	}
	server.Close()
	return checkThrottle(ctx, s, g, free.most, killed)
}

// checkThrottle checks the gateway's counts.
func checkThrottle(ctx context.Context, s *runner.Runner, g *gateway, before int, killed string) (err error) {
	most := g.most
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
	all, err := semaphore.New(s.Manager, semaphore.Options{
		Name: s.Place.Lease("throttle"), Permits: permits, Lease: leasing.AcquireOptions{WaitLimit: 3 * s.TTL},
	})
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
