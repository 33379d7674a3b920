// Package dispatch sends requests to a provider, which is foreign code: it may hang, panic or end its goroutine.
//
// Send makes one request, and stops waiting for it when its context has ended. Jobs bounds the number of requests in
// flight, so that goroutines do not pile up under load or while a server hangs. Batches lets items that are due at about the same
// time share a request. Bounded is the context of one request.
package dispatch

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

// ReplyGrace is the time for which a caller still waits for the reply to a request whose context has ended.
// After that, the caller leaves without the reply.
const ReplyGrace = 50 * time.Millisecond

// Overdue counts requests that have not returned although their contexts have
// ended. At its limit no further request is sent, so goroutines do not pile up
// while a provider hangs. Claims, waits, releases, clean-ups and the batches each have their own count
// and limit.
type Overdue struct {
	count atomic.Int32
	Limit int32 // 0 means 2: a second request may get through while the first hangs
}

// Count returns the number of requests that are overdue.
func (o *Overdue) Count() int { return int(o.count.Load()) }

func (o *Overdue) isFull() bool { return o.count.Load() >= cmp.Or(o.Limit, 2) }

var (
	errGoexit = &panics.Error{}
	// ErrOverdue is the error of a request whose caller has left because the provider had not returned.
	ErrOverdue    = fmt.Errorf("%w: the provider has not returned, although its context has ended", abstractions.ErrUnavailable)
	errAllOverdue = lifecycle.MarkNoAnswer(unsentError{fmt.Errorf("%w: nothing was sent, since earlier requests have not returned, although their contexts have ended", abstractions.ErrUnavailable)})
)

// unsentError marks an error of a request that was not sent: see abstractions.NotApplied.
type unsentError struct{ error }

func (unsentError) NotApplied() bool { return true }
func (u unsentError) Unwrap() error  { return u.error }

// LateReceiver receives the reply to a request whose caller has left.
type LateReceiver[Reply any] interface {
	RepliedLate(reply Reply, err error)
}

// Requests sends the requests to one provider, which is foreign code.
type Requests struct {
	direct bool // the provider heeds contexts
	log    func(level slog.Level, text string, args ...any)
	spawn  func(f func())
	done   <-chan struct{}

	work chan func() // for idle helpers
	idle atomic.Int32
}

// NewRequests returns the Requests of a provider. heedsContext says that its calls return soon after the end of their
// context. log and spawn, which runs a function in a goroutine, may be called from any goroutine. The idle helpers end when
// done is closed.
func NewRequests(heedsContext bool, log func(level slog.Level, text string, args ...any), spawn func(f func()), done <-chan struct{}) *Requests {
	return &Requests{direct: heedsContext, log: log, spawn: spawn, done: done, work: make(chan func())}
}

// Send sends req to the provider p by the method send. Unless the provider declares HeedsContext, the call runs in
// another goroutine, and its caller leaves soon after ctx has ended. For example, a call that hangs in fsync ignores its
// context. late, unless nil, gets a reply that comes after the caller has left.
//
// A panic becomes an error with an unknown outcome, and is logged with its stack. Send does not pass the panic on. Most requests
// belong to the manager, and there a panic would end the process because of one lease. A panic in a holder's deferred Release
// would also end the holder's process. The steps after an unknown outcome (a retry, a clean-up, the end of trust) are the same
// as after a lost reply.
func Send[P, Req, Reply any](ctx context.Context, r *Requests, pending *Overdue, p P, send func(P, context.Context, Req) (Reply, error), req Req, late LateReceiver[Reply]) (Reply, error) {
	if r.direct {
		return callGuarded(ctx, r, p, send, req)
	}
	return sendInHelper(ctx, r, pending, p, send, req, late)
}

// sendInHelper makes the call of a request in another goroutine.
func sendInHelper[P, Req, Reply any](ctx context.Context, r *Requests, pending *Overdue, p P, send func(P, context.Context, Req) (Reply, error), req Req, late LateReceiver[Reply]) (Reply, error) {
	var none Reply
	if pending.isFull() {
		return none, errAllOverdue
	}
	type answer struct {
		reply Reply
		err   error
	}
	answers := make(chan answer, 1)
	r.run(func() {
		a := answer{err: errGoexit}
		defer func() {
			answers <- a
			if a.err == errGoexit { //nolint:errorlint // the same error value that was set above
				r.log(slog.LevelError, "leasing: the provider panicked", "panic", a.err)
			}
		}()
		a.reply, a.err = callGuarded(ctx, r, p, send, req)
	})
	select {
	case a := <-answers:
		return a.reply, a.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(ReplyGrace)
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
			late.RepliedLate(a.reply, a.err)
		}
	}()
	return none, lifecycle.MarkNoAnswer(fmt.Errorf("%w: %w", ErrOverdue, ctx.Err()))
}

// maxIdleHelpers bounds the number of idle helpers.
const maxIdleHelpers = 16

// run runs f in a helper, a goroutine of sendInHelper. Some helpers stay after a request, for the next request: a new
// goroutine would have to grow its stack, to 64 KB for an in-process database.
func (r *Requests) run(f func()) {
	select {
	case r.work <- f:
	default:
		r.spawn(func() { r.runHelper(f) })
	}
}

func (r *Requests) runHelper(f func()) {
	for f != nil {
		f()
		if f = nil; r.idle.Add(1) <= maxIdleHelpers {
			select {
			case f = <-r.work:
			case <-r.done:
			}
		}
		r.idle.Add(-1)
	}
}

// callGuarded makes a call, and turns a panic into an error.
func callGuarded[P, Req, Reply any](ctx context.Context, r *Requests, p P, send func(P, context.Context, Req) (Reply, error), req Req) (reply Reply, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("%w: %v", panics.Err, v)
			r.log(slog.LevelError, "leasing: the provider panicked", "panic", v, "stack", string(debug.Stack()))
		} else if p, is := errors.AsType[*panics.Error](err); is && p.First() { // the panic was in a goroutine of the provider
			r.log(slog.LevelError, "leasing: the provider panicked", "panic", p, "stack", string(p.Stack))
		}
	}()
	return send(p, ctx, req)
}
