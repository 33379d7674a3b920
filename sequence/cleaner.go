package sequence

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/sequence/seqstore"
)

// CleanerOptions configure a Cleaner. The zero value is ready to use: it recovers completed
// work, and turns other expired numbers into gaps.
type CleanerOptions[Tx any] struct {
	// Owner is a readable label for the claims. Default: Lease.Owner.
	Owner string
	// Lease configures the engine that renews the cleaner's claims: see Options.Lease. Its Logger gets
	// messages for operators.
	Lease leasing.Options
	// ClaimFor is the duration of a claim without renewal. Default 30 s.
	ClaimFor time.Duration
	// Interval is the pause between two sweeps. Default 1 s.
	Interval time.Duration

	// Steps is the recovery chain, tried in order. Default: CommitCompleted, MakeGap.
	Steps []Step
	// Select, unless nil, chooses the steps for one number, which need not be in Steps: see ByLoad. If it returns no steps, the
	// number becomes a gap.
	Select func(ctx context.Context, e Entry, steps []Step) []Step
	// Write is the application's own write for recovered work, in the transaction that
	// issues the new number.
	Write Write[Tx]
	// MaxAttempts is the number of failed recoveries, including panics, after which a number becomes a gap. Default 5.
	MaxAttempts int
	// RetryAfter is the pause after the first failure. The pause doubles with each failure, up to 5
	// minutes, and is shortened by up to a quarter at random. Default 1 s.
	RetryAfter time.Duration

	// Recovery mode starts when more than Cascade numbers have expired at the same time. Default
	// 10.
	Cascade int
	// RecoveryFor is the duration of recovery mode, unless a sweep extends that mode. Default 1
	// minute.
	RecoveryFor time.Duration
	// Batch is the number of recoveries in recovery mode before a pause of BatchPause. Defaults 10
	// and 100 ms.
	Batch      int
	BatchPause time.Duration
	// OnMode is called when this cleaner has started or ended recovery mode, so
	// that the application can react.
	OnMode func(ctx context.Context, recovery bool)

	// Hooks free resources that a lost operation held elsewhere: locks, temporary files. They
	// run in parallel when the number is closed, and again at later sweeps, in any process,
	// until all have succeeded. So they must be idempotent. Their context ends after ClaimFor, and the cleaner then
	// continues.
	Hooks []Hook
}

// Hook frees the resources of an operation.
type Hook func(ctx context.Context, e Entry) error

// Cleaner closes the numbers whose leases have run out, one after the other, in order. Any number of
// processes may run a Cleaner for a stream; one of them at a time makes progress. Make one with
// NewCleaner.
type Cleaner[Tx any] struct {
	store        Store[Tx]
	stream       string
	options      CleanerOptions[Tx]
	manager      *leasing.Manager
	telemetry    *telemetry
	hooksFrom    atomic.Int64 // the number at which the hooks of the next sweep begin; 0 before the first sweep
	runningHooks sync.Map     // numbers whose hooks have not returned
}

// NewCleaner makes a Cleaner for one stream. It sends no request; the work begins with Run or Sweep.
func NewCleaner[Tx any](store Store[Tx], stream string, o CleanerOptions[Tx]) (*Cleaner[Tx], error) {
	if store == nil {
		return nil, invalid("store", nil, "a Store")
	}
	if err := seqstore.ValidateText("stream", stream, seqstore.MaxStreamBytes, false); err != nil {
		return nil, err
	}
	o.ClaimFor, o.Interval = cmp.Or(o.ClaimFor, 30*time.Second), cmp.Or(o.Interval, time.Second)
	o.MaxAttempts, o.RetryAfter = cmp.Or(o.MaxAttempts, 5), cmp.Or(o.RetryAfter, time.Second)
	o.Cascade, o.RecoveryFor = cmp.Or(o.Cascade, 10), cmp.Or(o.RecoveryFor, time.Minute)
	o.Batch, o.BatchPause = cmp.Or(o.Batch, 10), cmp.Or(o.BatchPause, 100*time.Millisecond)
	o.Owner = cmp.Or(o.Owner, o.Lease.Owner)
	o.Lease.Logger = cmp.Or(o.Lease.Logger, slog.New(slog.DiscardHandler))
	if o.Steps == nil {
		o.Steps = []Step{CommitCompleted(), MakeGap()}
	}
	if err := o.validate(); err != nil {
		return nil, err
	}
	releaseClaim := func(ctx context.Context, id string) error { return store.ReleaseClaim(ctx, stream, id) }
	manager, err := leasing.NewManager(leaseProvider{releaseClaim}, o.Lease)
	if err != nil {
		return nil, err
	}
	return &Cleaner[Tx]{store: store, stream: stream, options: o, manager: manager, telemetry: newTelemetry(o.Lease.MeterProvider)}, nil
}

func (o *CleanerOptions[Tx]) validate() error {
	for field, d := range map[string]time.Duration{"Interval": o.Interval, "RetryAfter": o.RetryAfter, "RecoveryFor": o.RecoveryFor, "BatchPause": o.BatchPause} {
		if d < time.Millisecond || d > 24*time.Hour {
			return invalid("CleanerOptions."+field, d, "1ms to 24h")
		}
	}
	for field, n := range map[string]int{"MaxAttempts": o.MaxAttempts, "Cascade": o.Cascade, "Batch": o.Batch} {
		if n < 1 {
			return invalid("CleanerOptions."+field, n, "at least 1")
		}
	}
	for i, step := range o.Steps {
		if step.Name == "" || step.Recover == nil {
			return invalid(fmt.Sprintf("CleanerOptions.Steps[%d]", i), step.Name, "a name and a function")
		}
	}
	if o.ClaimFor < shortestLease || o.ClaimFor > 24*time.Hour {
		return invalid("CleanerOptions.ClaimFor", o.ClaimFor, shortestLease.String()+" to 24h")
	}
	return seqstore.ValidateText("CleanerOptions.Owner", o.Owner, seqstore.MaxKindBytes*2, true)
}

// Close releases claims under way. Call it after Run has returned.
func (c *Cleaner[Tx]) Close(ctx context.Context) error { return c.manager.Close(ctx) }

// Run sweeps until ctx ends, and returns the cause. A failed sweep is logged, and retried after a
// pause that doubles up to a minute.
func (c *Cleaner[Tx]) Run(ctx context.Context) error {
	for failures := 0; ; {
		_, err := c.Sweep(ctx)
		pause := c.options.Interval
		if err != nil && ctx.Err() == nil {
			c.options.Lease.Logger.Warn("sequence: a sweep failed", "stream", c.stream, "error", err)
			pause = min(pause<<min(failures, 16), time.Minute)
			failures++
		} else {
			failures = 0
		}
		if !sleep(ctx, pause-time.Duration(rand.Float64()*float64(pause)/10)) {
			return context.Cause(ctx)
		}
	}
}

// sleep waits for d. It returns false if ctx ends before that time.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// Report is the result of a sweep.
type Report struct {
	Closed    int // numbers, by this sweep
	Recovered int // of the closed numbers
	Gaps      int // of the closed numbers
	Failed    int // recoveries, which will be retried
	Recovery  bool
}

// Sweep closes numbers whose leases have run out, until there is nothing left to claim, and
// runs due hooks. An error ends it early; numbers closed before the error stay closed.
func (c *Cleaner[Tx]) Sweep(ctx context.Context) (r Report, err error) {
	status, err := c.readStatus(ctx, &r)
	if err != nil {
		return r, err
	}
	for n := 1; ; n++ {
		claimed := false
		if status.Claimable > 0 {
			claimed, err = c.recoverNext(ctx, &r)
		}
		if err != nil || !claimed {
			return r, errors.Join(err, c.runHooks(ctx, status.Last))
		}
		if r.Recovery && n%c.options.Batch == 0 {
			if !sleep(ctx, c.options.BatchPause) {
				return r, context.Cause(ctx)
			}
			if status, err = c.readStatus(ctx, &r); err != nil {
				return r, err
			}
		}
	}
}

// readStatus reads the status of the stream. It begins or extends recovery mode if more than Cascade numbers have expired,
// and ends the mode early if the backlog is below half of Cascade. The store keeps the mode for all processes, and
// the mode ends after RecoveryFor.
func (c *Cleaner[Tx]) readStatus(ctx context.Context, r *Report) (s Status, err error) {
	if s, err = c.store.Status(ctx, c.stream); err != nil {
		return s, err
	}
	c.telemetry.observe(ctx, s)
	r.Recovery = !s.RecoveryUntil.IsZero()
	changed := false
	switch {
	case s.Expired > c.options.Cascade:
		changed, err = c.store.EnterRecovery(ctx, c.stream, c.options.RecoveryFor)
		r.Recovery = true
	case r.Recovery && 2*s.Expired < c.options.Cascade:
		changed, err = c.store.LeaveRecovery(ctx, c.stream)
		r.Recovery = false
	}
	if err != nil || !changed {
		return s, err
	}
	c.options.Lease.Logger.Warn("sequence: recovery mode", "stream", c.stream, "on", r.Recovery, "expired", s.Expired)
	if c.options.OnMode != nil {
		err := catchPanic(func() error {
			c.options.OnMode(ctx, r.Recovery)
			return nil
		})
		if err != nil {
			c.options.Lease.Logger.Error("sequence: OnMode failed", "stream", c.stream, "error", err)
		}
	}
	return s, nil
}

// guardedWrite returns the application's write with panics converted into errors, which count as
// failed attempts.
func (c *Cleaner[Tx]) guardedWrite() Write[Tx] {
	if c.options.Write == nil {
		return nil
	}
	return func(ctx context.Context, tx Tx, e Entry) error {
		return catchPanic(func() error { return c.options.Write(ctx, tx, e) })
	}
}

// claimLease implements leaseHandler for a claim.
type claimLease[Tx any] struct {
	c     *Cleaner[Tx]
	entry *Entry      // nil until a number is claimed
	ended atomic.Bool // by Resolve, or by a claim of another cleaner
}

// errNothing ends an attempt to claim. It matches leasing.ErrReleased so that the engine does not
// wait and retry.
var errNothing = fmt.Errorf("sequence: nothing to claim: %w", leasing.ErrReleased)

func (l *claimLease[Tx]) acquire(ctx context.Context, id string, d time.Duration) (int64, time.Duration, error) {
	e, ok, err := l.c.store.Claim(ctx, seqstore.ClaimRequest{Stream: l.c.stream, Owner: l.c.options.Owner, ID: id, Duration: d})
	if err == nil && !ok {
		err = errNothing
	}
	if err != nil {
		return 0, 0, err
	}
	l.entry = &e
	return e.Token, d, nil
}

func (l *claimLease[Tx]) renew(ctx context.Context, d time.Duration) (time.Duration, error) {
	return d, l.c.store.ExtendClaim(ctx, seqstore.RenewRequest{Stream: l.c.stream, Seq: l.entry.Seq, Token: l.entry.Token, Duration: d})
}

// release gives back a claim that has no result because the cleaner has stopped or the store has failed. Other cleaners
// then need not wait for the claim to lapse.
func (l *claimLease[Tx]) release(ctx context.Context) error {
	if l.entry == nil || l.ended.Load() {
		return nil
	}
	return l.c.store.ReleaseClaim(ctx, l.c.stream, l.entry.ClaimID)
}

// recoverNext claims and closes the next number.
func (c *Cleaner[Tx]) recoverNext(ctx context.Context, r *Report) (claimed bool, err error) {
	claim := &claimLease[Tx]{c: c}
	lease, err := c.manager.With(leasing.AcquireOptions{TTL: c.options.ClaimFor}).TryAcquire(context.WithValue(ctx, handlerKey{}, leaseHandler(claim)), leaseName(c.stream, "claim/"+abstractions.NewID()))
	if err != nil {
		if errors.Is(err, errNothing) {
			err = nil
		}
		return false, err
	}
	defer lease.Release(context.WithoutCancel(ctx)) //nolint:errcheck // the claim lapses
	work, cancel := context.WithCancelCause(lease.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	e := *claim.entry
	c.telemetry.claimed(ctx, &e, c.options.ClaimFor)

	req, step := c.chain(work, e)
	req.Owner, req.Uncleaned = c.options.Owner, len(c.options.Hooks) > 0
	req.MaxAttempts, req.RetryAfter = c.options.MaxAttempts, c.backoff(e.Attempts)
	if err := c.enqueueCompleted(work, e, req); err != nil {
		return true, err
	}
	var closed Entry
	_, err = retry(work, lease, c.guardedWrite(), func(write Write[Tx]) (err error) {
		closed, err = c.store.Resolve(work, req, write)
		return err
	})
	if err != nil && req.Outcome == OutcomeRecovered && work.Err() == nil && !errors.Is(err, ErrLate) {
		// The caller's write has failed, or its row was refused: the number is retried later.
		req.Outcome, req.Reason = seqstore.OutcomeFailed, reasonOf(err)
		if err = c.enqueueCompleted(work, e, req); err == nil {
			closed, err = c.store.Resolve(work, req, nil)
		}
	}
	claim.ended.Store(err == nil || errors.Is(err, ErrLate))
	if errors.Is(err, ErrLate) { // another cleaner has the number, or completed work has arrived: the next claim shows which
		c.options.Lease.Logger.Warn("sequence: a claim has lapsed", "stream", c.stream, "seq", e.Seq, "error", err)
		return true, nil
	}
	if err != nil {
		return true, err
	}
	c.countOutcome(ctx, r, e, closed, req, step)
	if len(c.options.Hooks) == 0 || !closed.Uncleaned && closed.Seq == e.Seq {
		return true, nil
	}
	due, err := c.dueHooks(ctx, e.Seq, 1)
	if err != nil || len(due) == 0 || due[0].Seq != e.Seq {
		return true, err
	}
	return true, c.runHooksOf(ctx, due[0])
}

// enqueueCompleted puts completed work into the manual queue before its number may become a gap, since Save has
// promised the writer that the work is kept.
func (c *Cleaner[Tx]) enqueueCompleted(ctx context.Context, e Entry, req seqstore.ResolveRequest) error {
	gap := req.Outcome == OutcomeGap || req.Outcome == seqstore.OutcomeFailed && e.Attempts+1 >= req.MaxAttempts
	if !gap || e.Work.Phase != Completed {
		return nil
	}
	return c.store.Enqueue(ctx, ManualItem{Stream: e.Stream, Seq: e.Seq, Op: e.Op, Payload: e.Work.Data, Reason: cmp.Or(req.Reason, ReasonExpired)})
}

// countOutcome counts and logs the end of a claim.
func (c *Cleaner[Tx]) countOutcome(ctx context.Context, r *Report, e, closed Entry, req seqstore.ResolveRequest, step string) {
	outcome := req.Outcome
	if closed.State == Gap {
		outcome = OutcomeGap
	}
	switch outcome {
	case seqstore.OutcomeFailed:
		r.Failed++
	case OutcomeGap:
		r.Gaps++
		r.Closed++
	case OutcomeRecovered:
		r.Recovered++
		r.Closed++
	}
	c.telemetry.resolved(ctx, &e, outcome, step, req.Outcome == seqstore.OutcomeFailed)
	level := slog.LevelInfo
	if req.Outcome == seqstore.OutcomeFailed {
		level = slog.LevelWarn
	}
	c.options.Lease.Logger.Log(ctx, level, "sequence: an expired number", "stream", c.stream, "seq", e.Seq, "op", e.Op, "kind", e.Kind,
		"outcome", string(outcome), "step", step, "reason", req.Reason, "attempts", e.Attempts)
}

// backoff returns the pause after a failure, given the number of earlier failures.
func (c *Cleaner[Tx]) backoff(failures int) time.Duration {
	pause := min(c.options.RetryAfter<<min(failures, 16), max(5*time.Minute, c.options.RetryAfter))
	return pause - time.Duration(rand.Float64()*float64(pause)/4)
}

// hookPage limits how many numbers have their hooks run in a sweep.
const hookPage = 100

// dueHooks returns up to limit entries whose hooks are due and whose numbers are at least from.
func (c *Cleaner[Tx]) dueHooks(ctx context.Context, from int64, limit int) ([]Entry, error) {
	page, err := c.store.Read(ctx, seqstore.ReadRequest{Stream: c.stream, From: from, Limit: limit, Uncleaned: true})
	return page.Entries, err
}

// runHooks runs the due hooks of up to hookPage numbers. It begins after the last number of the previous sweep, or at
// a random number in the first sweep, and wraps around to the lowest number, so that hooks that always fail do not
// block others.
func (c *Cleaner[Tx]) runHooks(ctx context.Context, last int64) error {
	if len(c.options.Hooks) == 0 {
		return nil
	}
	from := c.hooksFrom.Load()
	if from == 0 {
		from = 1 + rand.Int64N(max(last, 1))
	}
	entries, err := c.dueHooks(ctx, from, hookPage)
	if err == nil && len(entries) < hookPage {
		var front []Entry
		front, err = c.dueHooks(ctx, 1, hookPage-len(entries))
		for _, e := range front {
			if e.Seq < from {
				entries = append(entries, e)
			}
		}
	}
	if err != nil {
		return err
	}
	for _, e := range entries {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := c.runHooksOf(ctx, e); err != nil {
			return err
		}
		c.hooksFrom.Store(e.Seq + 1)
	}
	return nil
}

// runHooksOf runs the hooks of a number, and waits for them for at most ClaimFor. It does not run them again until
// all have returned.
func (c *Cleaner[Tx]) runHooksOf(ctx context.Context, e Entry) error {
	if _, running := c.runningHooks.LoadOrStore(e.Seq, true); running {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, c.options.ClaimFor)
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		failures := make(chan error, len(c.options.Hooks))
		for _, hook := range c.options.Hooks {
			providerkit.Go(func() error { return hook(bounded, e.Clone()) }, func(err error) { failures <- panicError(err) })
		}
		var err error
		for range c.options.Hooks {
			err = errors.Join(err, <-failures)
		}
		c.runningHooks.Delete(e.Seq)
		ended <- err
	}()
	var err error
	select {
	case err = <-ended:
	case <-bounded.Done():
		select {
		case err = <-ended:
		default:
			err = fmt.Errorf("they have not returned: %w", context.Cause(bounded))
		}
	}
	if err != nil {
		c.telemetry.hooks.Add(ctx, 1, attributes(e.Stream, e.Kind))
		c.options.Lease.Logger.Warn("sequence: hooks failed, and will be retried", "stream", c.stream, "seq", e.Seq, "op", e.Op, "error", err)
		return nil
	}
	return c.store.Cleaned(ctx, c.stream, e.Seq)
}
