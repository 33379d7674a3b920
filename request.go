package leasing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// replyGrace is how long a request whose context has ended may take to say
// what became of it, before its caller leaves without it.
const replyGrace = 50 * time.Millisecond

// overdue counts requests that have not returned although their contexts have
// ended. At its limit no further request is sent, so a provider that hangs does
// not collect goroutines. Claims, leases, releases and the batches have counts of their own: they
// don't stand in for each other.
type overdue struct {
	count atomic.Int64
	limit int64 // 0 means 2: a second request may find a way round what the first hangs on
}

func (o *overdue) full() bool { return o.count.Load() >= cmp.Or(o.limit, 2) }

var (
	// errPanicked marks a request that panicked or ended its goroutine: a bug,
	// after which the outcome of the request is unknown. Waiting for a name
	// ends with it; a renewal or a release is tried again.
	errPanicked   = fmt.Errorf("%w: the provider panicked", ErrUnavailable)
	errGoexit     = fmt.Errorf("%w: it ended its goroutine", errPanicked)
	errOverdue    = fmt.Errorf("%w: the provider has not returned, although its context has ended", ErrUnavailable)
	errAllOverdue = unsent{fmt.Errorf("%w: nothing was sent, since earlier requests have not returned, although their contexts have ended", ErrUnavailable)}
)

// unsent is an error that says so: see abstractions.NotApplied.
type unsent struct{ error }

func (unsent) NotApplied() bool { return true }
func (u unsent) Unwrap() error  { return u.error }

// reply is what a request came to.
type reply[T any] struct {
	value T
	err   error
}

// request calls the provider, which is somebody else's code. Unless that says
// that it heeds contexts, the call is made in another goroutine, and its caller
// leaves soon after ctx has ended: a disk that hangs in fsync heeds nothing. late,
// unless nil, gets a reply that comes after that.
//
// A panic becomes an error whose outcome is unknown, and is logged with its
// stack. It is not raised again: most requests belong to the manager, where a
// panic would end the process for the sake of one lease, and a holder's
// deferred Release must not end the holder. All that can follow an unknown
// outcome (a retry, a clean-up, the end of trust) is the same as after a lost reply.
func request[T any](ctx context.Context, m *manager, pending *overdue, call func(context.Context) (T, error), late func(T, error)) (T, error) {
	var none T
	if pending.full() {
		return none, errAllOverdue
	}
	if m.caps.HeedsContext {
		return protected(ctx, m, call)
	}
	replies := make(chan reply[T], 1)
	m.goTracked(func() {
		r := reply[T]{err: errGoexit}
		defer func() {
			replies <- r
			if r.err == errGoexit { //nolint:errorlint // as it was set above
				m.log(slog.LevelError, "leasing: the provider panicked", "panic", r.err)
			}
		}()
		r.value, r.err = protected(ctx, m, call)
	})
	select {
	case r := <-replies:
		return r.value, r.err
	case <-ctx.Done():
	}
	timer := time.NewTimer(replyGrace)
	defer timer.Stop()
	select {
	case r := <-replies:
		return r.value, r.err
	case <-timer.C:
	}
	pending.count.Add(1)
	go func() {
		r := <-replies
		pending.count.Add(-1)
		if late != nil {
			late(r.value, r.err)
		}
	}()
	return none, fmt.Errorf("%w: %w", errOverdue, ctx.Err())
}

// protected makes a call, and turns a panic into an error.
func protected[T any](ctx context.Context, m *manager, call func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", errPanicked, p)
			m.log(slog.LevelError, "leasing: the provider panicked", "panic", p, "stack", string(debug.Stack()))
		}
	}()
	return call(ctx)
}

// giveUp sends one request to release a claim.
func (m *manager) giveUp(ctx context.Context, pending *overdue, req abstractions.ReleaseRequest) error {
	_, err := request(ctx, m, pending, func(ctx context.Context) (struct{}, error) {
		return struct{}{}, m.provider.Release(ctx, req)
	}, nil)
	return err
}

// log writes to the application's logger, which may panic.
func (m *manager) log(level slog.Level, text string, args ...any) {
	defer func() { _ = recover() }() // there is nowhere else to report it
	m.options.Logger.With("provider", m.caps.Provider).Log(context.Background(), level, text, args...)
}

// random returns a number of at least 0 and under 1. It calls the application:
// never under a lock.
func (m *manager) random() (number float64) {
	defer func() {
		if p := recover(); p != nil {
			number = 0.5
			m.log(slog.LevelError, "leasing: Options.Random panicked", "panic", p)
		}
	}()
	return m.options.Random()
}

// orBackground replaces a nil context, which never ends.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
