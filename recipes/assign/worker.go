package assign

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

var (
	// ErrMoved is the cause with which work ends when its partition goes to another worker.
	ErrMoved = errors.New("assign: the partition goes to another worker")
	// ErrLeft is the cause with which Leave ends the work.
	ErrLeft = errors.New("assign: the worker leaves")
)

// Worker works on its share of the partitions. It is safe for concurrent use.
type Worker struct {
	manager       *leasing.Manager
	options       Options
	filter        filter
	workerOptions leasing.AcquireOptions // of the worker's lease
	leaveCtx      context.Context        // ends with Leave
	leave         context.CancelFunc
	running       chan struct{} // full while a call of Run is in progress
	working       sync.WaitGroup

	mu    sync.Mutex
	tasks map[string]*task // by partition
}

// task is a partition that the worker waits for, or works on.
type task struct {
	cancel context.CancelCauseFunc
	lease  *leasing.Lease // nil while it waits
}

// New returns a worker. It sends no request before Run.
func New(manager *leasing.Manager, options Options) (*Worker, error) {
	if manager == nil {
		return nil, &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	options.Lease = options.Lease.Over(manager.AcquireOptions())
	options, err := options.complete(manager.Capabilities())
	if err != nil {
		return nil, err
	}
	w := &Worker{manager: manager, options: options, running: make(chan struct{}, 1), tasks: map[string]*task{}}
	w.leaveCtx, w.leave = context.WithCancel(context.Background())
	w.workerOptions, w.filter = options.Lease, newFilter(options.Partitions, options.Lease.Metadata)
	if w.filter != nil {
		w.workerOptions.Metadata = maps.Clone(w.workerOptions.Metadata)
		w.workerOptions.Metadata[namesKey] = w.filter.encode()
	}
	return w, nil
}

// ID returns Options.Worker, or the random ID.
func (w *Worker) ID() string { return w.options.Worker }

// Run works on the worker's share until one of these:
//
//   - ctx ends. The contexts of all work end at once. Run returns the cause.
//   - Leave was called. Run returns nil.
//   - Retrying is pointless (the manager is closed, access is denied, the provider
//     does not implement Lister, ...). Run returns that error.
//
// When it returns, all work has returned and the leases are released. Only one Run of a
// worker may be under way at a time.
func (w *Worker) Run(ctx context.Context) error {
	select {
	case w.running <- struct{}{}:
		defer func() { <-w.running }()
	default:
		return errors.New("assign: this worker already runs")
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer w.working.Wait()
	err := w.run(ctx)
	if w.leaveCtx.Err() != nil && ctx.Err() == nil {
		cancel(ErrLeft)
		return nil
	}
	cancel(err)
	return err
}

// Leave ends Run gracefully. The worker stops counting as live, keeps working for Options.Every so
// that the others can list the live workers, and then releases everything. Leave waits until Run
// has returned. If ctx ends first it returns the cause, and the rest continues in the background.
// Inside Work, call it with Work's context; otherwise it waits for itself.
func (w *Worker) Leave(ctx context.Context) error {
	w.leave()
	select {
	case w.running <- struct{}{}:
		<-w.running
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Partitions returns the partitions whose leases the worker holds and can trust at
// this moment, sorted.
func (w *Worker) Partitions() (held []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for p, t := range w.tasks {
		if t.lease != nil && t.lease.Err() == nil {
			held = append(held, p)
		}
	}
	slices.Sort(held)
	return held
}

// run holds the worker's own lease, acquires a new one after a loss, and calls rebalance until Run must
// end. It returns the reason.
func (w *Worker) run(ctx context.Context) error {
	waiting, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	defer context.AfterFunc(w.leaveCtx, func() { stop(ErrLeft) })()
	var refusals recipe.Refusals
	for {
		lease, err := w.manager.With(w.workerOptions).Acquire(waiting, w.options.Name+workerPart+w.options.Worker)
		if err != nil {
			return cmp.Or(context.Cause(ctx), err)
		}
		every := cmp.Or(w.options.Every, min(lease.TTL()/4, time.Minute))
		alone := true
		for err == nil && waiting.Err() == nil && lease.Err() == nil {
			alone, err = w.rebalance(ctx)
			if lasting := refusals.Last(err); err != nil && !recipe.Permanent(err) && !lasting {
				w.options.OnError("", err)
				err = nil
			}
			if err == nil {
				pause(waiting, lease, every-rand.N(every/4+1))
			}
		}
		if released := lease.Release(ctx); released != nil && !errors.Is(released, leasing.ErrLost) {
			w.options.OnError("", released)
		}
		switch {
		case err != nil || ctx.Err() != nil:
			return cmp.Or(err, context.Cause(ctx))
		case w.leaveCtx.Err() != nil:
			if !alone {
				recipe.Sleep(ctx, every)
			}
			return nil
		}
	}
}

// pause waits for d, or until ctx or the lease ends.
func pause(ctx context.Context, lease *leasing.Lease, d time.Duration) {
	ctx, end := context.WithCancel(ctx)
	defer end()
	defer context.AfterFunc(lease.Context(), end)()
	recipe.Sleep(ctx, d)
}

// rebalance lists the live workers and the holders of partitions, and carries out this
// worker's part of the plan. A list without the worker itself is too old, and is
// ignored. rebalance reports whether this worker is the only live worker.
func (w *Worker) rebalance(ctx context.Context) (alone bool, err error) {
	var workers []string
	var lists []filter
	holders := map[string]string{}
	for record, err := range w.manager.List(ctx, leasing.ListOptions{Prefix: w.options.Name + "/", HeldOnly: true}) {
		if err != nil {
			return false, err
		}
		name := strings.TrimPrefix(record.Name, w.options.Name)
		if id, is := strings.CutPrefix(name, workerPart); is {
			workers, lists = append(workers, id), append(lists, filterFromRecord(record))
		} else if p, is := strings.CutPrefix(name, partitionPart); is {
			holders[p] = record.Metadata[Key]
		}
	}
	slices.Sort(workers)
	workers = slices.Compact(workers)
	if !slices.Contains(workers, w.options.Worker) {
		return false, nil
	}
	for _, p := range w.Partitions() { // the partitions held now: the list may be older
		holders[p] = w.options.Worker
	}
	isShared := w.isShared(lists)
	shared := slices.DeleteFunc(slices.Clone(w.options.Partitions), func(p string) bool { return !isShared(p) })
	assigned := plan(shared, workers, holders, w.options.Preferred)
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range shared { // all other partitions stay where they are
		t := w.tasks[p]
		switch mine := assigned[p] == w.options.Worker; {
		case mine && t == nil:
			w.startTask(ctx, p)
		case !mine && t != nil:
			t.cancel(ErrMoved)
		}
	}
	return len(workers) == 1, nil
}

// startTask waits for a partition and works on it, in the background. Caller holds mu.
func (w *Worker) startTask(ctx context.Context, partition string) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &task{cancel: cancel}
	w.tasks[partition] = t
	w.working.Go(func() {
		defer cancel(nil)
		err := w.work(ctx, partition, t)
		w.mu.Lock()
		delete(w.tasks, partition)
		w.mu.Unlock()
		if err != nil {
			w.options.OnError(partition, err)
		}
	})
}

// work acquires a partition's lease and calls Work. It returns the errors of the lease and of Work,
// unless Work's error only reports the end of its context.
func (w *Worker) work(ctx context.Context, partition string, t *task) (failure error) {
	err := w.manager.With(w.options.Lease).Do(ctx, w.options.Name+partitionPart+partition, func(ctx context.Context, lease *leasing.Lease) error {
		w.mu.Lock()
		t.lease = lease
		w.mu.Unlock()
		err := w.options.Work(ctx, partition, lease)
		if ended := context.Cause(ctx); ended == nil || !errors.Is(err, context.Canceled) && !errors.Is(err, ended) {
			failure = err
		}
		return nil // so that Do returns only the errors of the lease
	})
	if t.lease == nil && ctx.Err() != nil {
		return nil
	}
	return recipe.Join(failure, err)
}
