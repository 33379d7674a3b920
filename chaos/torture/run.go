package torture

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/pprof"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// Run lets workers compete for Options.For, ends all faults, and checks the
// recorded history. It returns an error if it could not run, or if ctx ended
// before the run; violations are in the report. It takes longer than For, because it waits
// until abandoned leases have run out, and makes the checks.
func Run(ctx context.Context, options Options) (*Report, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{options: options, names: options.names(), clock: new(clock), recording: new(recording), resource: fenced(options.Fence)}
	r.label = fmt.Sprintf("%p", r)
	if err := labelled(ctx, goroutineLabel, r.label, r.play); err != nil {
		return nil, err
	}
	leftGoroutines(r.label, r.options.Patience, r.clock, r.recording)
	return r.report(), nil
}

// Test runs Run in a test. It logs the report, and fails the test if Report.Err is not nil. With the flag -artifacts of go test
// the history of a failing run is kept, for Verify and for "leasing-dev torture --verify".
//
//	torture.Test(t, torture.Options{Open: open, Plan: chaos.FlakyNetwork(chaos.FlakyNetworkOptions{})})
func Test(t testing.TB, options Options) *Report {
	t.Helper()
	if options.Command == "" {
		options.Command = "go test -run " + t.Name()
	}
	report, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if err = report.Err(); err != nil {
		t.Error(err)
		if file, err := os.Create(filepath.Join(t.ArtifactDir(), "history.json")); err != nil {
			t.Error(err)
		} else if err := errors.Join(report.WriteHistory(file), file.Close()); err != nil {
			t.Error(err)
		}
	} else {
		t.Logf("\n%s", report)
	}
	return report
}

// run is one run.
type run struct {
	options   Options
	names     []string
	clock     *clock
	recording *recording
	resource  resource
	caps      leasing.Capabilities
	pushes    bool   // the backend wakes waiters
	label     string // of the run's goroutines
	backend   int64  // see history

	faultsEnd, closed time.Duration
	free              []freeAt

	slots []*slot
}

// runner is a worker with its client, here or in a process of its own.
type runner interface {
	run(ctx context.Context) error
	endFaults()
	Close() error
}

// slot is a running worker. After a kill, the slot of a successor replaces that slot.
type slot struct {
	index  int
	runner runner
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // once ended
}

func (r *run) now() time.Duration { return r.clock.now() }

// play makes the run, up to the check.
func (r *run) play(ctx context.Context) error {
	err := r.checkBackend(ctx)
	if err == nil {
		err = r.prepare(ctx)
	}
	if err != nil {
		return errors.Join(err, r.closeAll())
	}
	for _, m := range r.slots {
		m.start(ctx)
	}
	err = r.disturb(ctx)
	for _, m := range r.slots {
		m.runner.endFaults()
	}
	r.faultsEnd = r.now()
	for _, m := range r.slots { // one after the other: with simultaneous ends a release would wake a random waiter
		m.stop()
		pause(context.Background(), time.Millisecond)
	}
	err = errors.Join(err, r.awaitWorkers(), r.closeAll())
	r.closed = r.now()
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return r.awaitFree(ctx)
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

// prepare opens the workers' clients, or starts their processes.
func (r *run) prepare(ctx context.Context) error {
	r.clock.start = time.Now()
	for i := range r.options.Workers {
		if r.options.Process != nil {
			p, err := r.spawn(i)
			if err != nil {
				return err
			}
			r.slots = append(r.slots, &slot{index: i, runner: p})
			continue
		}
		c, err := openClient(ctx, r.options, i, r.clock, r.recording)
		if err != nil {
			return fmt.Errorf("open the client of worker %d: %w", i, err)
		}
		r.slots = append(r.slots, &slot{index: i, runner: newWorker(i, r.options, r.names, c, r.resource)})
	}
	if r.options.Process == nil {
		r.clock.start = time.Now() // the time of opening the clients does not count
	}
	return nil
}

// checkBackend acquires a lease before any fault. If that fails, the run would show nothing.
// It also sets the options that depend on the provider.
func (r *run) checkBackend(ctx context.Context) (err error) {
	provider, err := r.options.open(ctx)
	if err != nil {
		return fmt.Errorf("open a client: %w", err)
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	r.caps = provider.Capabilities()
	_, r.pushes = abstractions.As[abstractions.Waiter](provider)
	r.options = r.options.fit(r.caps)
	manager, err := leasing.NewManager(provider, r.options.Manager)
	if err != nil {
		return err
	}
	if err := manager.Close(ctx); err != nil {
		return err
	}
	if err := r.take(ctx, provider, r.names[0], abstractions.NewID()); err != nil {
		return fmt.Errorf("before anything has gone wrong: %w", err)
	}
	if record, err := provider.Inspect(ctx, abstractions.InspectRequest{Name: r.names[0]}); err == nil && !record.Now.IsZero() {
		r.backend = record.Now.UnixMicro()
	}
	return nil
}

// start starts the slot's worker.
func (m *slot) start(ctx context.Context) {
	working, stop := context.WithCancel(ctx)
	m.stop, m.ended = stop, make(chan struct{})
	go func() {
		defer close(m.ended)
		defer stop()
		m.err = m.runner.run(working)
	}()
}

// awaitWorkers waits for the workers, for a bounded time. It returns the errors of workers that could
// not work, because these need not be faults of the provider.
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
			r.recording.enter(Violation{Check: checkHang, At: r.now(), Text: fmt.Sprintf("worker %d has not come back", m.index)})
		}
	}
	return errors.Join(errs...)
}

// closeAll closes the workers' clients.
func (r *run) closeAll() error {
	var errs []error
	for _, m := range r.slots {
		if err := m.runner.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the client of worker %d: %w", m.index, err))
		}
	}
	return errors.Join(errs...)
}

func (r *run) note(d Disturbance) {
	f := fault{At: r.now(), Worker: -1, Kind: d.Kind, Rule: "disturbance"}
	if d.For > 0 {
		f.Until = f.At + d.For
	}
	r.recording.enter(f)
}

// progress reports the progress of the run, and returns the number of requests so far.
func (r *run) progress(phase string) int {
	p := r.recording.progress()
	p.Elapsed, p.For, p.Phase = r.now(), r.options.For, phase
	r.options.Progress(p)
	return p.Operations
}
