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
	"github.com/distributedleasing/leasing/recipes/semaphore"
	"github.com/distributedleasing/leasing/samples/internal/show"
)

// throttle is how the calls to somebody else's API are kept under its limit across
// a fleet: example 5 of leases, "throttling external API calls".
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
// What this does not show: a process that is paused in the middle of a call and
// wakes up after its permit was given to another. No semaphore stops that one; a
// gateway that knows fencing tokens does (see package semaphore).
var throttle = show.Scenario{
	Name: "throttle", About: "at most so many calls of an API at a time, across a fleet",
	// Far longer than a call, so that no call outlives the permit of a process that
	// died in the middle of it.
	TTL:  3 * time.Second,
	Play: playThrottle, Work: workThrottle,
}

const (
	processes = 3
	// permits is how many calls the gateway bears at a time.
	permits = 3
	// crew is how many payments a process charges at a time, if it may, and
	// charges how many it has.
	crew, charges = 4, 32
	// killAfter is how many calls with a permit a process makes before it is
	// killed: the first one that has.
	killAfter = 4
	// callTakes is how long the gateway needs for a payment. Once it has begun it
	// goes on, whatever becomes of the caller.
	callTakes = 150 * time.Millisecond
)

// payments are the same in all processes.
var payments = semaphore.Options{Name: "external/payments/throttle", Permits: permits}

// What workers, and the gateway, report.
const (
	warmedUp = "warmed up" // has called without permits; waits for its cue
	inCall   = "in call"   // of the gateway: the worker is in the call in which it is killed
)

func workThrottle(ctx context.Context, w *show.Worker) error {
	throttled, err := semaphore.New(w.Manager, payments)
	if err != nil {
		return err
	}
	if err := chargeAll(ctx, crew, func(ctx context.Context, n int) error { return charge(ctx, w, "trial", n) }); err != nil {
		return err
	}
	w.Cue(warmedUp, 0, "")
	return chargeAll(ctx, charges, func(ctx context.Context, n int) error { return chargeWithPermit(ctx, w, throttled, n) })
}

// chargeWithPermit charges a payment when there is a permit for it. If the
// permit is lost in the middle, ctx ends, and the call with it. The gateway may
// have charged nevertheless, so it is asked for the same payment again, and
// tells a repeated number (an "idempotency key") from a new one.
func chargeWithPermit(ctx context.Context, w *show.Worker, throttled *semaphore.Semaphore, n int) error {
	err := leasing.ErrLost
	for errors.Is(err, leasing.ErrLost) {
		err = throttled.Do(ctx, func(ctx context.Context, _ *semaphore.Permit) error {
			return charge(ctx, w, "payment", n)
		})
	}
	return err
}

// chargeAll charges payments, crew of them at a time.
func chargeAll(ctx context.Context, n int, charge func(ctx context.Context, n int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var team sync.WaitGroup
	for first := range crew {
		team.Go(func() {
			for i := first; i < n; i += crew {
				if err := charge(ctx, i); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	team.Wait()
	return context.Cause(ctx)
}

// charge calls the gateway.
func charge(ctx context.Context, w *show.Worker, kind string, n int) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s/%s/%s/%d", w.Arg, kind, w.Name, n), http.NoBody)
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

// gateway is somebody else's API. It counts the calls that it has at a time.
type gateway struct {
	strike func(worker string) // called once, in the middle of a call

	mu       sync.Mutex
	now, max int
	charged  map[string]map[string]bool // payments, by worker
	calls    map[string]int             // with a permit, by worker
	struck   bool
}

func (g *gateway) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /trial/{worker}/{number}", func(http.ResponseWriter, *http.Request) { g.serve(func() {}) })
	mux.HandleFunc("POST /payment/{worker}/{number}", func(_ http.ResponseWriter, r *http.Request) {
		g.serve(func() { g.charge(r.PathValue("worker"), r.PathValue("number")) })
	})
	return mux
}

// serve does a call. It answers when the call is no longer counted.
func (g *gateway) serve(work func()) {
	g.mu.Lock()
	g.now++
	g.max = max(g.max, g.now)
	g.mu.Unlock()
	work()
	<-time.After(callTakes)
	g.mu.Lock()
	g.now--
	g.mu.Unlock()
}

// charge charges a payment, once. In one of the calls the caller is killed.
func (g *gateway) charge(worker, number string) {
	g.mu.Lock()
	if g.charged[worker] == nil {
		g.charged[worker] = map[string]bool{}
	}
	g.charged[worker][number] = true
	g.calls[worker]++
	strikes := !g.struck && g.calls[worker] == killAfter
	g.struck = g.struck || strikes
	g.mu.Unlock()
	if strikes {
		g.strike(worker)
	}
}

// counts returns the calls at a time, the most of them since the last reset, and
// how many payments were charged.
func (g *gateway) counts(reset bool) (now, most, done int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, payments := range g.charged {
		done += len(payments)
	}
	now, most = g.now, g.max
	if reset {
		g.max = g.now
	}
	return now, most, done
}

func playThrottle(ctx context.Context, s *show.Show) error {
	ctx, cancel := context.WithCancel(ctx)
	struck := make(chan struct{}) // closed when the worker has been killed
	g := &gateway{charged: map[string]map[string]bool{}, calls: map[string]int{}}
	g.strike = func(worker string) {
		s.Tell(ctx, show.Report{Worker: worker, Kind: inCall})
		select {
		case <-struck:
		case <-ctx.Done():
		}
	}
	server := httptest.NewServer(g.handler())
	defer server.Close() // waits for the calls
	var gauge sync.WaitGroup
	defer gauge.Wait()
	defer cancel()
	gauge.Go(func() { tellCounts(ctx, s, g) })

	s.Act("%d processes charge %d payments each, %d at a time; the gateway bears %d at a time", processes, charges, crew, permits)
	var waiting []string // workers that have called without a permit
	before, killed := 0, ""
	if err := s.Workers(ctx, processes, server.URL, func(r show.Report) error {
		switch r.Kind {
		case inCall:
			killed = r.Worker
			s.Act("kill -KILL %s, in the middle of a call", r.Worker)
			defer close(struck)
			return s.Kill(r.Worker)
		case warmedUp:
			if waiting = append(waiting, r.Worker); len(waiting) < processes {
				return nil
			}
			_, before, _ = g.counts(true)
			s.Act("without permits the gateway had %d calls at a time; from now on each needs one of %d permits", before, permits)
			for _, worker := range waiting {
				if err := s.Cue(worker); err != nil {
					return err
				}
			}
		}
		return nil
	}); err != nil {
		return err
	}
	return judgeThrottle(ctx, s, g, before, killed)
}

// tellCounts tells how many calls there are at a time.
func tellCounts(ctx context.Context, s *show.Show, g *gateway) {
	for wait(ctx, 500*time.Millisecond) == nil {
		now, most, done := g.counts(false)
		s.Tell(ctx, show.Report{Text: fmt.Sprintf("the gateway has %d calls at a time, at most %d so far, and has done %d", now, most, done)})
	}
}

// judgeThrottle checks what the gateway has counted.
func judgeThrottle(ctx context.Context, s *show.Show, g *gateway, before int, killed string) (err error) {
	_, most, _ := g.counts(false)
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
