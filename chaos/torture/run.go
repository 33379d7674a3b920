package torture

import (
	"context"
	"errors"
	"fmt"
	"runtime/pprof"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// Run lets workers compete for Options.For, puts everything right, and checks
// what has happened. It returns an error if it could not run, or if ctx ended
// first; violations are in the report. It needs some more time than For: until
// leases that were left behind have run out, and for the check.
func Run(ctx context.Context, options Options) (*Report, error) {
	options, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	r := &run{options: options, names: options.names(), clock: new(clock), book: newBook(), resource: newFenced(options.Fence)}
	label := fmt.Sprintf("%p", r)
	if err := labelled(ctx, label, r.play); err != nil {
		return nil, err
	}
	leftGoroutines(label, r.options.Patience, r.clock, r.book)
	return r.report(), nil
}

// run is one run.
type run struct {
	options  Options
	names    []string
	clock    *clock
	book     *book
	resource *fenced
	caps     leasing.Capabilities

	faultsEnd, closed time.Duration
	free              []FreeAt

	crew []*member
}

// player is a worker with its client, here or in a process of its own.
type player interface {
	run(ctx context.Context) error
	calm() // ends the faults
	Close() error
}

// local is a worker in this process.
type local struct {
	*worker
	*client
}

// member is a player at work.
type member struct {
	index  int
	player player
	stop   context.CancelFunc
	ended  chan struct{}
	err    error // once ended
}

func (r *run) now() time.Duration { return r.clock.now() }

// play is the run, up to the check.
func (r *run) play(ctx context.Context) error {
	err := r.rehearse(ctx)
	if err == nil {
		err = r.prepare(ctx)
	}
	if err != nil {
		return errors.Join(err, r.closeAll())
	}
	for _, m := range r.crew {
		m.act(ctx)
	}
	err = r.disturb(ctx)
	r.calm()
	r.dismiss()
	err = errors.Join(err, r.await(), r.closeAll())
	r.closed = r.now()
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, context.Cause(ctx))
	}
	return r.awaitFree(ctx)
}

// disturb lets Options.For pass, and meanwhile makes trouble for servers and processes.
// An error ends it at once.
func (r *run) disturb(ctx context.Context) error {
	during, stop := context.WithTimeout(ctx, r.options.For)
	defer stop()
	troubles := []func() error{func() error { return r.watch(during) }}
	if r.options.Process != nil {
		troubles = append(troubles, func() error { return r.stopAndKill(ctx, during) })
	}
	if r.options.Disturb != nil {
		troubles = append(troubles, func() error {
			pprof.SetGoroutineLabels(context.Background()) // servers that it starts may go on
			if err := r.options.Disturb(during, r.note); err != nil {
				return fmt.Errorf("disturb: %w", err)
			}
			<-during.Done()
			return nil
		})
	}
	ended := make(chan error)
	for _, trouble := range troubles {
		go func() { ended <- trouble() }()
	}
	var errs []error
	for range troubles {
		errs = append(errs, <-ended)
		stop()
	}
	return errors.Join(errs...)
}

// watch tells each second how the run goes.
func (r *run) watch(ctx context.Context) error {
	for pause(ctx, time.Second); ctx.Err() == nil; pause(ctx, time.Second) {
		r.progress("running")
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
			r.crew = append(r.crew, &member{index: i, player: p})
			continue
		}
		c, err := openClient(ctx, r.options, i, r.clock, r.book)
		if err != nil {
			return fmt.Errorf("open the client of worker %d: %w", i, err)
		}
		r.crew = append(r.crew, &member{index: i, player: local{newWorker(i, r.options, r.names, c, r.resource), c}})
	}
	if r.options.Process == nil {
		r.clock.start = time.Now() // of the run, and not of what came before it
	}
	return nil
}

// rehearse takes a lease before anything goes wrong. Where that can't be done the run
// would show nothing. What depends on the provider is chosen here.
func (r *run) rehearse(ctx context.Context) (err error) {
	provider, err := r.options.open(ctx)
	if err != nil {
		return fmt.Errorf("open a client: %w", err)
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	r.caps = provider.Capabilities()
	r.options = r.options.fit(r.caps)
	ctx, cancel := context.WithTimeout(ctx, r.options.Manager.RequestTimeout+r.options.Patience)
	defer cancel()
	manager, err := leasing.NewManager(provider, r.options.Manager)
	if err != nil {
		return err
	}
	if err := manager.Close(ctx); err != nil {
		return err
	}
	name, id := r.names[0], abstractions.NewID()
	_, err = provider.Acquire(ctx, abstractions.AcquireRequest{Name: name, ID: id, Owner: "torture", TTL: r.options.TTL})
	if err != nil {
		return fmt.Errorf("before anything has gone wrong: %w", err)
	}
	return provider.Release(ctx, abstractions.ReleaseRequest{Name: name, ID: id})
}

// act sets a worker to work.
func (m *member) act(ctx context.Context) {
	working, stop := context.WithCancel(ctx)
	m.stop, m.ended = stop, make(chan struct{})
	go func() {
		defer close(m.ended)
		defer stop()
		m.err = m.player.run(working)
	}()
}

// dismiss ends the workers' work, one after the other: whom a release reaches that
// comes in the same instant as its own end nobody could say.
func (r *run) dismiss() {
	for _, m := range r.crew {
		m.stop()
		pause(context.Background(), time.Millisecond)
	}
}

// await waits for the workers, but not forever. One that could not work is no fault
// of the provider's, or nobody can tell.
func (r *run) await() error {
	var errs []error
	bound, cancel := context.WithTimeout(context.Background(), 2*r.options.farewell()+r.options.Patience)
	defer cancel()
	for _, m := range r.crew {
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
			r.book.enter(Violation{Check: CheckHang, At: r.now(), Text: fmt.Sprintf("worker %d has not come back", m.index)})
		}
	}
	return errors.Join(errs...)
}

// calm ends the faults.
func (r *run) calm() {
	for _, m := range r.crew {
		m.player.calm()
	}
	r.faultsEnd = r.now()
}

// closeAll closes the workers' clients.
func (r *run) closeAll() error {
	var errs []error
	for _, m := range r.crew {
		if err := m.player.Close(); err != nil {
			errs = append(errs, fmt.Errorf("close the client of worker %d: %w", m.index, err))
		}
	}
	return errors.Join(errs...)
}

func (r *run) note(d Disturbance) {
	f := Fault{At: r.now(), Worker: -1, Kind: d.Kind, Rule: "disturbance"}
	if d.For > 0 {
		f.Until = f.At + d.For
	}
	r.book.enter(f)
}

func (r *run) progress(phase string) {
	p := r.book.count()
	p.Elapsed, p.For, p.Phase = r.now(), r.options.For, phase
	r.options.Progress(p)
}
