package run

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/pprof"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

type run struct {
	stage
	caps    leasing.Capabilities
	pushes  bool   // the backend wakes waiters
	label   string // the label of the run's goroutines
	backend int64  // see History.Backend

	faultsEnd, closed time.Duration
	free              []history.FreeAt

	slots []*slot
}

// runner is a worker with its client, in this process or in another process.
type runner interface {
	run(ctx context.Context) error
	endFaults()
	Close() error
}

// slot is a running worker. After a kill, the slot of a successor replaces this slot.
type slot struct {
	index  int
	runner runner
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // set when ended is closed
}

func (m *slot) start(ctx context.Context) {
	working, stop := context.WithCancel(ctx)
	m.stop, m.ended = stop, make(chan struct{})
	go func() {
		defer close(m.ended)
		defer stop()
		m.err = m.runner.run(working)
	}()
}

func (r *run) closeAll() error {
	var errs []error
	for _, m := range r.slots {
		if err := m.runner.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the client of worker %d: %w", m.index, err))
		}
	}
	return errors.Join(errs...)
}

// awaitWorkers waits for the workers, for a bounded time. It returns the errors from workers that
// could not work. They are not violations, because their cause may not be the provider.
func (r *run) awaitWorkers() error {
	var errs []error
	bound, cancel := context.WithTimeout(context.Background(), 2*r.options.closeTimeout()+settling(r.options)+r.options.Patience)
	defer cancel()
	for _, m := range r.slots {
		select {
		case <-m.ended:
		case <-bound.Done():
		}
		select {
		case <-m.ended:
			if m.err != nil {
				errs = append(errs, fmt.Errorf("worker %d could not work: %w", m.index, m.err))
			}
		default:
			r.violation(history.CheckHang, "worker %d has not come back", m.index)
		}
	}
	return errors.Join(errs...)
}

// progress reports the progress of the run, and returns the number of requests so far.
func (r *run) progress(phase string) int {
	p := r.recording.Progress()
	p.Elapsed, p.For, p.Phase = r.now(), r.options.For, phase
	r.options.Progress(p)
	return p.Operations
}

// take acquires and then releases a name. It returns the error from the acquire.
func (r *run) take(ctx context.Context, provider leasing.Provider, name, id string) error {
	ctx, cancel := context.WithTimeout(ctx, r.options.Manager.Tuning.RequestTimeout+r.options.Patience)
	defer cancel()
	_, err := provider.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: "torture", TTL: r.options.TTL})
	if err == nil {
		_ = provider.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id})
	}
	return err
}

// disturb waits for Options.For, and disturbs servers and processes during that time.
// It returns early on an error.
func (r *run) disturb(ctx context.Context) error {
	during, stop := context.WithTimeout(ctx, r.options.For)
	defer stop()
	disturbances := []func() error{func() error { return r.watch(during) }}
	if r.options.Process != nil {
		disturbances = append(disturbances, func() error { return r.stopAndKill(ctx, during) })
	}
	if r.options.Disturb != nil {
		disturbances = append(disturbances, func() error {
			pprof.SetGoroutineLabels(context.Background()) // servers that Disturb starts may outlive the run
			if err := r.options.Disturb(during, r.note); err != nil {
				return fmt.Errorf("disturb: %w", err)
			}
			<-during.Done()
			return nil
		})
	}
	ended := make(chan error)
	for _, disturbance := range disturbances {
		go func() { ended <- disturbance() }()
	}
	var errs []error
	for range disturbances {
		errs = append(errs, <-ended)
		stop()
	}
	return errors.Join(errs...)
}

// watch reports the progress each second, and ends the run after Options.Operations requests.
func (r *run) watch(ctx context.Context) error {
	defer r.checkGoroutines()
	for pause(ctx, time.Second); ctx.Err() == nil; pause(ctx, time.Second) {
		if done := r.progress("running"); r.options.Operations > 0 && done >= r.options.Operations {
			return nil
		}
	}
	return nil
}

// perWorker is the highest number of goroutines that a worker may have: for its manager,
// requests, clean-ups, observers and faults.
const perWorker = 100

// checkGoroutines records a violation if there are more goroutines than the work can need.
func (r *run) checkGoroutines() {
	_, n := goroutines(goroutineLabel, r.label)
	if most := perWorker * (r.options.Workers + 1); n > most {
		r.violation(history.CheckGrowth, "there are %d goroutines, and no more than %d are needed", n, most)
	}
}

// stopAndKill pauses or kills worker processes, one at a time, until the context until ends. The
// successors of killed processes work until ctx ends.
func (r *run) stopAndKill(ctx, until context.Context) error {
	random := rand.New(rand.NewPCG(r.options.Seed, 0))
	part := func(low, high float64) time.Duration {
		return time.Duration((low + (high-low)*random.Float64()) * float64(r.options.TTL))
	}
	for next := len(r.slots); ; {
		pause(until, part(0.3, 1.2))
		if until.Err() != nil {
			return nil //nolint:nilerr // the time for disturbances is over
		}
		i := random.IntN(len(r.slots))
		p := r.slots[i].runner.(*process)
		if random.Float64() < 0.6 {
			r.suspend(until, p, part(0.4, 2))
			continue
		}
		r.note(Disturbance{Kind: fmt.Sprintf("worker %d killed", p.job.Index)})
		p.kill()
		successor, err := r.spawn(next) // the successor has a number of its own
		if err != nil {
			return err
		}
		r.slots[i] = &slot{index: next, runner: successor}
		r.slots[i].start(ctx)
		next++
	}
}
