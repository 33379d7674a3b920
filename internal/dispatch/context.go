package dispatch

import (
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// Bounded is a context with a deadline. It arms its timer only when a caller waits on Done. Most
// requests are answered long before their deadline, and a provider that passes ctx to no other code
// never needs the timer. Without the timer, an acquire and a release in memory take half the time.
type Bounded struct {
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

// WithBound gives ctx a deadline d from now, unless ctx has a sooner deadline. The caller must call Cancel.
func WithBound(ctx context.Context, d time.Duration) *Bounded {
	deadline := time.Now().Add(d)
	if sooner, ok := ctx.Deadline(); ok && sooner.Before(deadline) {
		deadline = sooner
	}
	return &Bounded{parent: ctx, deadline: deadline}
}

// arm returns a context of the standard library, which the first call makes. Child
// contexts find the armed context through Value, so they need no goroutine.
func (b *Bounded) arm() context.Context {
	if armed := b.armed.Load(); armed != nil {
		return armed
	}
	ctx, cancel := context.WithDeadline(b.parent, b.deadline)
	if !b.armed.CompareAndSwap(nil, &armedContext{ctx, cancel}) || b.canceled.Load() {
		cancel()
	}
	return b.armed.Load()
}

// Cancel ends the context, and releases its timer.
func (b *Bounded) Cancel() {
	b.canceled.Store(true)
	if armed := b.armed.Load(); armed != nil {
		armed.cancel()
	}
}

// Deadline is part of context.Context.
func (b *Bounded) Deadline() (time.Time, bool) { return b.deadline, true }

// Done is part of context.Context.
func (b *Bounded) Done() <-chan struct{} { return b.arm().Done() }

// Err is part of context.Context.
func (b *Bounded) Err() error {
	if b.armed.Load() == nil && !b.canceled.Load() && b.parent.Err() == nil && time.Until(b.deadline) > 0 {
		return nil
	}
	return b.arm().Err()
}

// Value is part of context.Context.
func (b *Bounded) Value(key any) any {
	if armed := b.armed.Load(); armed != nil {
		return armed.Value(key)
	}
	return b.parent.Value(key)
}

// detached is a context that also has the values of another context.
type detached struct {
	context.Context
	values context.Context
}

// WithValuesOf returns a context that ends with ctx, and has the values of both contexts.
func WithValuesOf(ctx, values context.Context) context.Context { return detached{ctx, values} }

// Value looks into values last, since package context calls Value to find the parent whose cancellation a new context follows.
func (d detached) Value(key any) any {
	if own := d.Context.Value(key); own != nil {
		return own
	}
	return d.values.Value(key)
}

// CutOff reports whether err is the cause of a context that has ended. Such an error
// is not about the request, whatever sentinel it matches: the context may be that of
// another lease, which was lost, or of a manager that is closed.
func CutOff(ctx context.Context, err error) bool {
	return ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
}
