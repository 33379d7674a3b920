package bloblease

import (
	"context"
	"errors"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

// call makes a call, in a goroutine that Close waits for. It ends when ctx does: the
// client library may not, while it waits for a token that another call has asked for
// (azcore's BearerTokenPolicy has one request for all, and heeds no context there).
// What goes on then has a context that has ended, and sends nothing more; it ends
// with that other call's token request, which patience bounds.
func call[T any](ctx context.Context, p *Provider, do func(context.Context) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	var none T
	own, cancel := p.bounded(ctx)
	defer cancel()
	done := make(chan answer, 1)
	began := p.beside(func() {
		if own.Err() != nil {
			return
		}
		value, err := do(own)
		done <- answer{value, err}
	})
	if !began {
		return none, abstractions.ErrClosed
	}
	select {
	case a := <-done:
		if a.err != nil && own.Err() != nil && errors.Is(a.err, own.Err()) {
			return none, p.ended(ctx, own)
		}
		return a.value, p.outward(a.err)
	case <-own.Done():
		return none, p.ended(ctx, own)
	}
}

// bounded is the context of a call: it ends with the caller's, with the provider,
// and if the caller's has no deadline after Options.Timeout.
func (p *Provider) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	var cancel context.CancelFunc
	if _, bounded := ctx.Deadline(); bounded {
		ctx, cancel = context.WithCancel(ctx)
	} else {
		ctx, cancel = context.WithTimeout(ctx, p.timeout)
	}
	stop := context.AfterFunc(p.lifetime, cancel)
	return ctx, func() {
		stop()
		cancel()
	}
}

// beside runs a function that Close waits for, unless the provider is closed.
func (p *Provider) beside(run func()) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.calls.Go(run)
	}
	return !p.closed
}

// ended is the error of a call whose own context has ended, by its caller's or
// otherwise. A context's cause is not in it: that may be an error of another lease.
func (p *Provider) ended(ctx, own context.Context) error {
	if ctx.Err() == nil && p.lifetime.Err() != nil {
		return fmt.Errorf("%w: the provider was closed meanwhile", abstractions.ErrUnavailable)
	}
	return failure(own.Err())
}
