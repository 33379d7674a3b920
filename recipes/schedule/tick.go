package schedule

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// result is the outcome of tryTick.
type result struct {
	done  bool // the tick needs no further work
	taken bool // some process has taken the tick
	// obstacle is the error that kept this process from reading the mark, or from starting the job.
	obstacle error
	// marking says that the obstacle occurred while setting the mark, so that the mark may exist.
	marking bool
	// failure is an error that occurred after this process took the tick.
	failure error
	// skipped, unless nil, is a *SkippedError about ticks up to last.
	skipped error
	last    time.Time
}

// tryTick takes a tick that no process has taken, if it can, and runs the job for the tick.
func (r *runner) tryTick(ctx context.Context, tick time.Time) (result result) {
	result.taken, result.obstacle = r.isMarked(ctx, tick)
	if result.taken || result.obstacle != nil {
		return result
	}
	began := false
	options := r.leaseOptions(tick)
	err := r.manager.With(options).TryDo(ctx, r.Name, func(ctx context.Context, lease *leasing.Lease) error {
		began = true
		result = r.runTick(ctx, Tick{At: tick, Lease: lease})
		return nil // so that TryDo returns only errors that concern the lease
	})
	switch {
	case !began:
		result.obstacle = err
	case err != nil:
		result.failure = recipe.Join(result.failure, err)
	}
	return result
}

// runTick does the work of the process that holds the schedule's lease.
//
// The job is started at most once for a tick, for this reason: a process that
// starts the job has acquired the lease, seen no mark, set the mark, and then
// found the lease still trusted. Of two such processes, one held the lease
// before the other, so the other has seen the mark.
func (r *runner) runTick(ctx context.Context, tick Tick) result {
	marked, err := r.isMarkedNow(ctx, tick.At)
	if marked || err != nil {
		return result{taken: marked, obstacle: err}
	}
	if r.AtLeastOnce {
		return r.runAtLeastOnce(ctx, tick)
	}
	if err := r.mark(ctx, tick.At); err != nil {
		return result{obstacle: err, marking: true}
	}
	if err := stopCause(ctx, tick.Lease); err != nil {
		return result{done: true, failure: &MissedError{Err: err}}
	}
	_, failure := r.work(ctx, tick)
	ran := result{done: true, failure: failure}
	if stopCause(ctx, tick.Lease) == nil {
		ran.last, ran.skipped = r.markSkipped(ctx, tick.At)
	}
	return ran
}

// stopCause returns the reason why the work must not continue. Lease.Err reads the clocks, so it may report a loss before the
// lease's context ends.
func stopCause(ctx context.Context, lease *leasing.Lease) error {
	if err := lease.Err(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// runAtLeastOnce runs the job, and marks the tick if the job has returned of its
// own accord.
func (r *runner) runAtLeastOnce(ctx context.Context, tick Tick) result {
	finished, failure := r.work(ctx, tick)
	if !finished {
		return result{failure: failure}
	}
	if err := r.mark(context.WithoutCancel(ctx), tick.At); err != nil {
		failure = recipe.Join(failure, fmt.Errorf("schedule: the job may run again, since the tick could not be marked: %w", err))
	}
	return result{done: true, failure: failure}
}

// markSkipped marks the last of the ticks that came while the job ran.
func (r *runner) markSkipped(ctx context.Context, ran time.Time) (last time.Time, skipped error) {
	last, ticks, _, err := r.latest(ran, r.now())
	if err != nil || ticks == 0 {
		return last, err
	}
	return last, recipe.Join(&SkippedError{Ticks: ticks, Run: ran}, r.mark(ctx, last))
}

// work calls the job. Its failure is the job's error, unless that error only says that the context had ended. The job is finished
// if it has returned of its own accord: without an error, or while its context had not ended (an end by the run's own timeout
// does not count).
func (r *runner) work(ctx context.Context, tick Tick) (finished bool, failure error) {
	limited := ctx
	if r.Timeout > 0 {
		var cancel context.CancelFunc
		limited, cancel = context.WithTimeoutCause(ctx, r.Timeout, ErrTimeout)
		defer cancel()
	}
	err := r.call(limited, tick)
	ended := context.Cause(ctx)
	switch {
	case err == nil:
		return true, nil
	case ended != nil && (errors.Is(err, context.Canceled) || errors.Is(err, ended)):
		return false, nil
	case errors.Is(context.Cause(limited), ErrTimeout) && !errors.Is(err, ErrTimeout):
		err = fmt.Errorf("%w: %w", ErrTimeout, err)
	}
	return ended == nil, err
}

// call turns a panic of the job into an error: otherwise the same tick would crash one process
// after another.
func (r *runner) call(ctx context.Context, tick Tick) (err error) {
	defer func() {
		if value := recover(); value != nil {
			err = &PanicError{Value: value, Stack: debug.Stack(), function: "the job"}
		}
	}()
	return r.job(ctx, tick)
}

// leaseOptions returns the options with which the lease of a run is acquired.
func (r *runner) leaseOptions(tick time.Time) leasing.AcquireOptions {
	options := r.Lease
	options.Metadata = map[string]string{}
	maps.Copy(options.Metadata, r.Lease.Metadata)
	options.Metadata["tick"] = tick.Format(tickFormat)
	return options
}
