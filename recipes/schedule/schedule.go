package schedule

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// Tick is one of the times at which the job runs.
type Tick struct {
	// At is the time, in UTC. It depends neither on the process that runs the job, nor on the delay
	// of the job.
	At time.Time
	// Lease is the lease of the schedule's name, under which the job runs.
	Lease *leasing.Lease
}

// Token is the fencing token of the lease: greater than those of all earlier
// runs of the schedule.
func (t Tick) Token() int64 { return t.Lease.Token() }

// Job is the function that a schedule runs. It should return soon after its context
// has ended. context.Cause says why: the lease was lost, the timeout has passed, or
// the context given to Run ended.
type Job func(ctx context.Context, tick Tick) error

// Run follows the timetable and runs the job when it is this process's turn,
// until one of these:
//
//   - ctx ends. Run waits until a job under way has returned and its lease is
//     released, then returns the cause.
//   - Options.Next has no more ticks, even if it is asked for later ones. Run returns nil.
//   - Continuing is pointless: the options are invalid, the manager is closed,
//     access is denied, and the like. Run returns that error, at once if it can
//     detect it without waiting for a tick.
//
// It starts no goroutine, so the job runs on the goroutine of the caller.
func Run(ctx context.Context, manager *leasing.Manager, options Options, job Job) error {
	if manager == nil {
		return &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	if job == nil {
		return &leasing.InvalidError{Field: "job", Value: nil, Want: "a function"}
	}
	options.Lease = options.Lease.Over(manager.AcquireOptions())
	options, err := options.complete(manager.Capabilities())
	if err != nil {
		return err
	}
	r := &runner{Options: options, manager: manager, job: job}
	if err := r.preflight(ctx); err != nil {
		return err
	}
	return r.runTicks(ctx)
}

// runner is one call of Run.
type runner struct {
	Options
	manager      *leasing.Manager
	job          Job
	refusals     recipe.Refusals
	lastReported time.Time // the tick of the latest OddTickError

	// The latest search found that Next is odd from oddFrom to oddUntil. following is the first
	// tick after oddUntil.
	oddFrom, oddUntil, following time.Time
}

// preflight checks, before the first tick, whether the timetable is valid, whether
// the manager accepts the options (it validates them before it sends a request,
// and sends none if its context has ended), and whether the backend refuses
// access. A backend that does not answer is not an error here: it may answer later.
func (r *runner) preflight(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	now := r.now()
	if err := r.checkNext(now); err != nil {
		return err
	}
	tick, err := r.next(now)
	if err == nil {
		_, err = r.upcoming(now, midpoint(now, tick))
	}
	if err != nil {
		return err
	}
	lease := r.leaseOptions(r.now())
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := r.manager.With(lease).TryAcquire(ended, r.Name); recipe.Permanent(err) {
		return err
	}
	for first := true; ; first = false {
		_, err := r.manager.Inspect(ctx, r.Name)
		if recipe.Permanent(err) || r.refusals.Last(err) {
			return err
		}
		if !errors.Is(err, leasing.ErrDenied) {
			return nil
		}
		if first {
			r.OnError(r.now(), err)
		}
		recipe.Sleep(ctx, time.Second)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

// maxSleep bounds the delay of a tick after a step of the clock or a suspension of the machine:
// Go's timers notice neither.
const maxSleep = 30 * time.Second

// runTicks waits for each tick, and ensures that it is run.
func (r *runner) runTicks(ctx context.Context) error {
	asked := r.now() // the time before the latest sleep
	after := asked
	if r.CatchUp {
		after = after.Add(-r.StartWithin)
	}
	for {
		now := r.now()
		if now.Before(after) { // the clock has gone back; the repeated ticks are marked
			after = now
		}
		tick, err := r.upcoming(after, asked)
		switch {
		case err != nil || tick.IsZero():
			return err
		case recipe.Closed(r.manager):
			return leasing.ErrClosed
		case tick.After(now):
			recipe.Sleep(ctx, min(tick.Sub(now), maxSleep))
			asked = now
		case !tick.After(now.Add(-r.StartWithin)): // the machine was suspended, or the clock was stepped
			after = now.Add(-r.StartWithin)
		default:
			var end time.Time
			if after, _, end, err = r.latest(tick, now); err == nil {
				err = r.ensureTick(ctx, after, end)
			}
			if err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
}

const (
	// firstPause is the pause before the first retry of a tick that another process seems to be
	// taking. The pause doubles up to lastPause.
	firstPause = 250 * time.Millisecond
	lastPause  = 15 * time.Second
)

// ensureTick tries a tick until this process or another has taken it, or it is no
// longer current. An error ends Run.
func (r *runner) ensureTick(ctx context.Context, tick, end time.Time) error {
	recipe.Sleep(ctx, time.Duration(rand.Float64()*float64(min(r.Jitter, end.Sub(r.now())/2))))
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	var uncertain, last error // uncertain: this process may have marked the tick
	for n := 0; ; n++ {
		left := end.Sub(r.now())
		if left <= 0 {
			r.reportMissed(tick, uncertain, last)
			return nil
		}
		result := r.tryTick(ctx, tick)
		if result.failure != nil {
			r.OnError(tick, result.failure)
		}
		if result.skipped != nil {
			r.OnError(result.last, result.skipped)
		}
		if last = result.obstacle; result.marking {
			uncertain = last
		}
		switch {
		case result.done:
			return nil
		case ctx.Err() != nil:
			last = context.Cause(ctx)
		case !recipe.Permanent(last) && !r.refusals.Last(last) && !result.taken:
			pause := min(firstPause<<min(n, 10), lastPause)
			pause -= time.Duration(rand.Float64() * float64(pause) / 2)
			recipe.Sleep(ctx, min(pause, left))
			continue
		}
		r.reportMissed(tick, uncertain, nil)
		return last
	}
}

// reportMissed reports that a tick may have been missed: if this process tried to set the mark and does not know the outcome, or
// else if the last obstacle was anything but another process that held the lease.
func (r *runner) reportMissed(tick time.Time, uncertain, last error) {
	switch {
	case uncertain != nil:
		r.OnError(tick, &MissedError{Err: uncertain})
	case last != nil && !errors.Is(last, leasing.ErrHeld):
		r.OnError(tick, &MissedError{Err: last})
	}
}

// now returns a time without a monotonic part, which would hide steps of the clock.
func (r *runner) now() time.Time { return r.Now().Round(0).UTC() }
