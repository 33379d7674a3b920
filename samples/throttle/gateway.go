package main

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/samples/internal/show"
)

// callTakes is how long the gateway needs for a payment. Once it has begun it
// goes on, whatever becomes of the caller.
const callTakes = 150 * time.Millisecond

// gateway is somebody else's API. It counts the calls that it has at a time.
type gateway struct {
	url    string
	server *http.Server
	show   *show.Show
	cancel context.CancelFunc // of what runs beside the calls
	beside sync.WaitGroup
	struck chan struct{} // closed when the worker has been killed

	mu       sync.Mutex
	now, max int
	payments map[string]map[string]bool // that were charged, by worker
	calls    map[string]int             // with a permit, by worker
	victim   string                     // the worker that is to be killed
}

func openGateway(ctx context.Context, s *show.Show) (*gateway, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	g := &gateway{
		url: "http://" + listener.Addr().String(), show: s, cancel: cancel, struck: make(chan struct{}),
		payments: map[string]map[string]bool{}, calls: map[string]int{},
	}
	handler := http.NewServeMux()
	handler.HandleFunc("POST /trial/{worker}/{number}", func(http.ResponseWriter, *http.Request) {
		g.serve(func() {})
	})
	handler.HandleFunc("POST /payment/{worker}/{number}", func(_ http.ResponseWriter, r *http.Request) {
		g.serve(func() { g.charge(ctx, r.PathValue("worker"), r.PathValue("number")) })
	})
	g.server = &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	g.beside.Go(func() { _ = g.server.Serve(listener) }) // until close
	g.beside.Go(func() { g.report(ctx) })
	return g, nil
}

func (g *gateway) close() error {
	g.cancel()
	closing, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	err := g.server.Shutdown(closing) // waits for the calls
	g.beside.Wait()
	return err
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
func (g *gateway) charge(ctx context.Context, worker, number string) {
	g.mu.Lock()
	if g.payments[worker] == nil {
		g.payments[worker] = map[string]bool{}
	}
	g.payments[worker][number] = true
	g.calls[worker]++
	strikes := g.victim == "" && g.calls[worker] == killAfter
	if strikes {
		g.victim = worker
	}
	g.mu.Unlock()
	if !strikes {
		return
	}
	g.show.Tell(ctx, show.Report{Worker: worker, Kind: inCall})
	select {
	case <-g.struck:
	case <-ctx.Done():
	}
}

// goOn lets the call go on whose caller has been killed.
func (g *gateway) goOn() { close(g.struck) }

// report tells how many calls there are at a time.
func (g *gateway) report(ctx context.Context) {
	pace := time.NewTicker(gaugeEvery)
	defer pace.Stop()
	for {
		select {
		case <-pace.C:
			g.mu.Lock()
			now := g.now
			g.mu.Unlock()
			g.show.Tell(ctx, show.Report{Kind: gauge, Number: int64(now)})
		case <-ctx.Done():
			return
		}
	}
}

// most is the largest number of calls at a time since the last reset.
func (g *gateway) most() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.max
}

// reset begins to count anew, and returns what most was.
func (g *gateway) reset() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	most := g.max
	g.max = g.now
	return most
}

// charged is how many payments of a worker were charged.
func (g *gateway) charged(worker string) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.payments[worker])
}

// done is how many payments were charged in all.
func (g *gateway) done() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := 0
	for _, payments := range g.payments {
		all += len(payments)
	}
	return all
}
