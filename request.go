package leasing

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/internal/lifecycle"
	"github.com/distributedleasing/leasing/internal/panics"
)

// replyGrace bounds the wait for the reply to a request whose context has
// ended. Then the caller leaves without the reply.
const replyGrace = 50 * time.Millisecond

// overdue counts requests that have not returned although their contexts have
// ended. At its limit no further request is sent, so a provider that hangs does
// not collect goroutines. Claims, releases, clean-ups and the batches each have their own count
// and limit.
type overdue struct {
	count atomic.Int32
	limit int32 // 0 means 2: a second request may get through while the first hangs
}

func (o *overdue) full() bool { return o.count.Load() >= cmp.Or(o.limit, 2) }

var (
	// errPanicked marks a request that panicked or ended its goroutine: a bug,
	// after which the outcome of the request is unknown. A wait for a name
	// ends with this error; a renewal or a release is retried.
	errPanicked   = panics.Err
	errGoexit     = &panics.Error{}
	errOverdue    = fmt.Errorf("%w: the provider has not returned, although its context has ended", ErrUnavailable)
	errAllOverdue = lifecycle.Silent(unsent{fmt.Errorf("%w: nothing was sent, since earlier requests have not returned, although their contexts have ended", ErrUnavailable)})
)

// unsent marks an error of a request that was not sent: see abstractions.NotApplied.
type unsent struct{ error }

func (unsent) NotApplied() bool { return true }
func (u unsent) Unwrap() error  { return u.error }

// lateReceiver takes the reply to a request that its caller has left.
type lateReceiver[Reply any] interface {
	repliedLate(reply Reply, err error)
}

// request sends req to the provider p, which is foreign code, by its method
// send. Unless the provider declares HeedsContext, the call runs in another
// goroutine, and its caller leaves soon after ctx has ended: a disk that hangs in fsync ignores
// contexts. late, unless nil, gets a reply that comes after the caller has left.
//
// A panic becomes an error whose outcome is unknown, and is logged with its
// stack. request does not raise the panic further: most requests belong to the manager, where a
// panic would end the process for the sake of one lease, and a holder's
// deferred Release must not end the holder. The steps after an unknown
// outcome (a retry, a clean-up, the end of trust) are the same as after a lost reply.
func request[P, Req, Reply any](ctx context.Context, m *manager, pending *overdue, p P, send func(P, context.Context, Req) (Reply, error), req Req, late lateReceiver[Reply]) (Reply, error) {
	if m.caps.HeedsContext {
		return protected(ctx, m, p, send, req)
	}
	return requestBeside(ctx, m, pending, p, send, req, late)
}

// requestBeside makes the call of a request in another goroutine.
func requestBeside[P, Req, Reply any](ctx context.Context, m *manager, pending *overdue, p P, send func(P, context.Context, Req) (Reply, error), req Req, late lateReceiver[Reply]) (Reply, error) {
	var none Reply
	if pending.full() {
		return none, errAllOverdue
	}
	type answer struct {
		reply Reply
		err   error
	}
	answers := make(chan answer, 1)
	m.helpers.run(m, func() {
		a := answer{err: errGoexit}
		defer func() {
			answers <- a
			if a.err == errGoexit { //nolint:errorlint // as it was set above
				m.log(slog.LevelError, "leasing: the provider panicked", "panic", a.err)
			}
		}()
		a.reply, a.err = protected(ctx, m, p, send, req)
	})
	select {
	case a := <-answers:
		return a.reply, a.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(replyGrace)
	defer timer.Stop()
	select {
	case a := <-answers:
		return a.reply, a.err
	case <-timer.C:
	}
	pending.count.Add(1)
	go func() {
		a := <-answers
		pending.count.Add(-1)
		if late != nil {
			late.repliedLate(a.reply, a.err)
		}
	}()
	return none, lifecycle.Silent(fmt.Errorf("%w: %w", errOverdue, ctx.Err()))
}

// helpers are the goroutines of requestBeside. Some of them stay after a request, for the
// next request: a new goroutine would have to grow its stack, to 64 KB for a database in the process.
type helpers struct {
	work chan func()
	idle atomic.Int32
}

// maxIdleHelpers bounds the idle helpers that stay.
const maxIdleHelpers = 16

// run runs f in a helper. Close waits for the helper unless the manager has ended.
func (h *helpers) run(m *manager, f func()) {
	select {
	case h.work <- f:
	default:
		m.goTracked(func() { h.help(m, f) })
	}
}

func (h *helpers) help(m *manager, f func()) {
	for f != nil {
		f()
		if f = nil; h.idle.Add(1) <= maxIdleHelpers {
			select {
			case f = <-h.work:
			case <-m.running.Done():
			}
		}
		h.idle.Add(-1)
	}
}

// protected makes a call, and turns a panic into an error.
func protected[P, Req, Reply any](ctx context.Context, m *manager, p P, send func(P, context.Context, Req) (Reply, error), req Req) (reply Reply, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errPanicked, r)
			m.log(slog.LevelError, "leasing: the provider panicked", "panic", r, "stack", string(debug.Stack()))
		} else if p, is := errors.AsType[*panics.Error](err); is && p.First() { // in a goroutine of the provider's
			m.log(slog.LevelError, "leasing: the provider panicked", "panic", p, "stack", string(p.Stack))
		}
	}()
	return send(p, ctx, req)
}

// giveUp sends one request to release a claim.
func (m *manager) giveUp(ctx context.Context, pending *overdue, bound time.Duration, req abstractions.ReleaseRequest) error {
	b := bounded(ctx, bound)
	defer b.cancel()
	_, err := request(b, m, pending, m.provider, func(p Provider, ctx context.Context, req abstractions.ReleaseRequest) (none struct{}, err error) {
		return none, p.Release(ctx, req)
	}, req, nil)
	if err != nil && cutOff(b, err) { // an error of the context is no answer of the backend's, even if it says that the request was not applied
		return lifecycle.NoAnswer(err)
	}
	return err
}

// boundedContext is a context with a deadline that arms its timer only when
// a caller waits on Done. Each request has a bound, most are answered long
// before, and a provider that passes ctx to no other code never needs the timer:
// this saves half the time of an acquire and release in memory.
type boundedContext struct {
	parent   context.Context
	deadline time.Time
	canceled atomic.Bool
	armed    atomic.Pointer[armedContext] // nil before the first use
}

// armedContext is a context of the standard library.
type armedContext struct {
	context.Context
	cancel context.CancelFunc
}

// bounded gives ctx a deadline d from now, unless ctx has a sooner deadline. The caller calls cancel.
func bounded(ctx context.Context, d time.Duration) *boundedContext {
	deadline := time.Now().Add(d)
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(deadline) {
		deadline = sooner
	}
	return &boundedContext{parent: ctx, deadline: deadline}
}

// arm returns a context of the standard library, which the first call makes. Child
// contexts find the armed context through Value, so they need no goroutine.
func (b *boundedContext) arm() context.Context {
	if armed := b.armed.Load(); armed != nil {
		return armed
	}
	ctx, cancel := context.WithDeadline(b.parent, b.deadline)
	if !b.armed.CompareAndSwap(nil, &armedContext{ctx, cancel}) || b.canceled.Load() {
		cancel()
	}
	return b.armed.Load()
}

func (b *boundedContext) cancel() {
	b.canceled.Store(true)
	if armed := b.armed.Load(); armed != nil {
		armed.cancel()
	}
}

func (b *boundedContext) Deadline() (time.Time, bool) { return b.deadline, true }
func (b *boundedContext) Done() <-chan struct{}       { return b.arm().Done() }

func (b *boundedContext) Err() error {
	if b.armed.Load() == nil && !b.canceled.Load() && b.parent.Err() == nil && time.Until(b.deadline) > 0 {
		return nil
	}
	return b.arm().Err()
}

func (b *boundedContext) Value(key any) any {
	if armed := b.armed.Load(); armed != nil {
		return armed.Value(key)
	}
	return b.parent.Value(key)
}

// detached is a context with the values of another.
type detached struct {
	context.Context
	values context.Context
}

// Value looks into values last, since package context finds the parent context to follow
// by Value.
func (d detached) Value(key any) any {
	if own := d.Context.Value(key); own != nil {
		return own
	}
	return d.values.Value(key)
}

// log writes to the application's logger, which may panic.
func (m *manager) log(level slog.Level, text string, args ...any) {
	defer func() { _ = recover() }() // a panic of the logger has no other place to be reported
	m.options.Logger.With("provider", m.caps.Provider).Log(context.Background(), level, text, args...)
}

// random returns a number of at least 0 and under 1. It calls the application's code, so
// the caller must not hold a lock.
func (m *manager) random() (number float64) {
	defer func() {
		if p := recover(); p != nil {
			number = 0.5
			m.log(slog.LevelError, "leasing: Tuning.Random panicked", "panic", p)
		}
	}()
	return m.options.Tuning.Random()
}

// orBackground replaces a nil context, which never ends.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}

// checkGrant refuses an answer for another claim or, once this claim has a token, for another token.
func (l *lease) checkGrant(g abstractions.Grant) error {
	if g.ID != l.id || g.Name != l.name || l.token != 0 && g.Token != l.token || g.Token <= 0 || g.Token > MaxToken || g.TTL <= 0 {
		return fmt.Errorf("%w: the provider answered for %q, claim %s, token %d, TTL %v", ErrUnavailable, g.Name, FingerprintOf(g.ID), g.Token, g.TTL)
	}
	return nil
}
