package schedule

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/distributedleasing/leasing"
)

// Tick is one of the times at which the job runs.
type Tick struct {
	// At is the time, in UTC. It is the same whichever process runs the job,
	// and however late.
	At time.Time
	// Lease is the one that the job runs under: that of the schedule's name.
	Lease leasing.Lease
}

// Token is the fencing token of the lease: greater than those of all earlier
// runs of the schedule.
func (t Tick) Token() int64 { return t.Lease.Token() }

// Job is what a schedule runs. It should return soon after its context has
// ended, for which context.Cause tells the reason: the lease was lost, the
// timeout has passed, or the context given to Run ended.
type Job func(ctx context.Context, tick Tick) error

// Run follows the timetable and runs the job when it is this process's turn,
// until one of these:
//
//   - ctx ends. Run waits until a job under way has returned and its lease is
//     released, then returns the cause.
//   - Next has no more ticks. Run returns nil.
//   - Going on can't help: the options can't work, the manager is closed,
//     access is denied, and the like. Run returns that error. What it can see
//     without waiting for a tick it returns at once.
//
// It starts no goroutine, so the job runs in the caller's.
func Run(ctx context.Context, manager leasing.Manager, options Options, job Job) error {
	if manager == nil {
		return &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	if job == nil {
		return &leasing.InvalidError{Field: "job", Value: nil, Want: "a function"}
	}
	options, err := options.withDefaults(manager.Capabilities())
	if err != nil {
		return err
	}
	r := &runner{Options: options, manager: manager, job: job}
	if err := r.rehearse(ctx); err != nil {
		return err
	}
	return r.follow(ctx)
}

// runner is a Run under way.
type runner struct {
	Options
	manager leasing.Manager
	job     Job
}

// rehearse finds out before it is night what can be found out: whether the
// timetable is one, whether the manager agrees with the options (it judges them
// first, and sends nothing if its context has ended), and whether the backend
// lets us in. That it does not answer may pass.
func (r *runner) rehearse(ctx context.Context) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := r.checkNext(r.now()); err != nil {
		return err
	}
	lease := r.lease(r.now())
	ended, end := context.WithCancel(ctx)
	end()
	if _, err := r.manager.TryAcquire(ended, r.Name, &lease); hopeless(err) {
		return err
	}
	if _, err := r.manager.Inspect(ctx, r.Name); hopeless(err) {
		return err
	}
	return nil
}

// maxNap is how long a clock that is stepped, or a machine that was suspended,
// may delay a tick: Go's timers know of neither.
const maxNap = 30 * time.Second

// follow goes from tick to tick.
func (r *runner) follow(ctx context.Context) error {
	after := r.now()
	if r.CatchUp {
		after = after.Add(-r.StartWithin)
	}
	for {
		now := r.now()
		if now.Before(after) { // the clock has gone back; what comes again is marked
			after = now
		}
		tick, err := r.next(after)
		switch {
		case err != nil || tick.IsZero():
			return err
		case tick.After(now):
			err = r.nap(ctx, tick.Sub(now))
		case !tick.After(now.Add(-r.StartWithin)): // a suspend, or the clock was stepped
			after = now.Add(-r.StartWithin)
		default:
			var end time.Time
			if after, end, err = r.latest(tick, now); err == nil {
				err = r.attend(ctx, after, end)
			}
		}
		if err != nil {
			return err
		}
	}
}

// nap waits for a while, at most maxNap. Its error is the cause of ctx, or says
// that the manager is closed.
func (r *runner) nap(ctx context.Context, d time.Duration) error {
	// No name is "", but a closed manager says that it is closed first.
	if _, err := r.manager.Inspect(ctx, ""); errors.Is(err, leasing.ErrClosed) {
		return err
	}
	if !sleep(ctx, min(d, maxNap)) {
		return context.Cause(ctx)
	}
	return nil
}

const (
	// firstPause is the time after which a tick that another process seems to
	// be taking is looked at again; it doubles up to lastPause.
	firstPause = 250 * time.Millisecond
	lastPause  = 15 * time.Second
)

// attend sees to it that a tick is taken, by this process or another, until it
// is no longer current. Its error ends Run.
func (r *runner) attend(ctx context.Context, tick, end time.Time) error {
	if !sleep(ctx, time.Duration(rand.Float64()*float64(min(r.Jitter, end.Sub(r.now())/2)))) {
		return context.Cause(ctx)
	}
	var doubt, last error
	for n := 0; ; n++ {
		left := end.Sub(r.now())
		if left <= 0 {
			r.missed(tick, doubt, last)
			return nil
		}
		result := r.look(ctx, tick)
		r.tell(tick, result)
		if last = result.obstacle; result.marking {
			doubt = last
		}
		switch {
		case result.done:
			return nil
		case ctx.Err() != nil:
			r.missed(tick, doubt, nil)
			return context.Cause(ctx)
		case hopeless(last):
			r.missed(tick, doubt, nil)
			return last
		case result.taken:
			r.missed(tick, doubt, nil)
			return nil
		}
		pause := min(firstPause<<min(n, 10), lastPause)
		pause -= time.Duration(rand.Float64() * float64(pause) / 2)
		sleep(ctx, min(pause, left))
	}
}

// tell tells what went wrong in a turn.
func (r *runner) tell(tick time.Time, result result) {
	if result.failure != nil {
		r.OnError(tick, result.failure)
	}
	if result.skipped != nil {
		r.OnError(result.last, result.skipped)
	}
}

// missed tells that a tick may have been missed: in any case if this process
// tried to set the mark and doesn't know what came of it; or because of the
// last obstacle, unless that only says that others were at it.
func (r *runner) missed(tick time.Time, doubt, last error) {
	switch {
	case doubt != nil:
		r.OnError(tick, &MissedError{Err: doubt})
	case last != nil && !errors.Is(last, leasing.ErrHeld):
		r.OnError(tick, &MissedError{Err: last})
	}
}

// now has no monotonic part, which would make differences blind to steps of
// the clock.
func (r *runner) now() time.Time { return r.Now().Round(0).UTC() }

// sleep pauses for d, or returns false when ctx ends.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
