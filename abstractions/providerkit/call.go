package providerkit

import (
	"context"
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Call makes a call that is none of abstractions.Provider's, such as a sweep or a
// migration, under the same rules. op names it in errors; name is a lease's, or "".
func Call(ctx context.Context, p *Provider, op, name string, do func(context.Context) error) error {
	_, err := run(ctx, p, op, name, nil, do, func(_ Driver, ctx context.Context, do func(context.Context) error) (none struct{}, err error) {
		return none, do(ctx)
	})
	return err
}

// run makes a call of the driver, unless the request is invalid.
func run[R, T any](ctx context.Context, p *Provider, op, name string, invalid error, req R, do func(Driver, context.Context, R) (T, error)) (T, error) {
	var none T
	if err := p.begin(ctx, invalid); err != nil {
		return none, p.wrap(op, name, err)
	}
	own, cancel := p.bounded(ctx)
	defer cancel()
	var value T
	var err error
	if p.config.Detach {
		value, err = detached(own, p, req, do)
	} else {
		defer p.calls.end()
		value, err = do(p.driver, own, req)
	}
	if err != nil {
		return none, p.wrap(op, name, p.explain(ctx, own, err))
	}
	return value, nil
}

// detached makes a call in a goroutine that Close waits for, and ends when its
// context does.
func detached[R, T any](own context.Context, p *Provider, req R, do func(Driver, context.Context, R) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	go func() {
		defer p.calls.end()
		var a answer
		if a.err = own.Err(); a.err == nil {
			a.value, a.err = do(p.driver, own, req)
		}
		done <- a
	}()
	select {
	case a := <-done:
		return a.value, a.err
	case <-own.Done():
	}
	select {
	case a := <-done: // at the same moment
		return a.value, a.err
	default:
		var none T
		return none, own.Err()
	}
}

// begin is the first question of every call, which must end if there is no error.
func (p *Provider) begin(ctx context.Context, invalid error) error {
	ended := ctx.Err() // the user's code: it may panic
	if !p.calls.begin() {
		return abstractions.ErrClosed
	}
	if ended != nil {
		invalid = MarkNotApplied(ended)
	}
	if invalid != nil {
		p.calls.end()
	}
	return invalid
}

// bounded is the context of a call.
func (p *Provider) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	_, has := ctx.Deadline()
	cancel := context.CancelFunc(func() {})
	if !has && p.config.Timeout > 0 {
		ctx, cancel = context.WithTimeout(ctx, p.config.Timeout)
	}
	if !p.config.Detach {
		return ctx, cancel
	}
	own, end := context.WithCancel(ctx)
	stop := context.AfterFunc(p.running, end)
	return own, func() { stop(); end(); cancel() }
}

// explain turns an error of the driver into one of package abstractions, with both
// in its chain. ctx is the caller's context, own the call's.
func (p *Provider) explain(ctx, own context.Context, err error) error {
	if err == nil {
		return nil
	}
	ended := own.Err()
	if ended != nil {
		err = withoutCause(own, err)
	}
	answered := known(err)
	if !answered {
		m := p.driver.Classify(err)
		if ended != nil && m.Class == Refused {
			m.Class = Unknown // a lock that nobody waits for any more, say
		}
		err = m.error(err)
	}
	definite := abstractions.NotApplied(err)
	switch {
	case ended == nil || answered && definite:
		return err
	case ctx.Err() == nil && p.running.Err() != nil && !definite:
		return fmt.Errorf("%w: the provider was closed meanwhile", abstractions.ErrUnavailable)
	}
	return say(ended, err)
}

// wrap says which call has failed.
func (p *Provider) wrap(op, name string, err error) error {
	if err == nil {
		return nil
	}
	return &abstractions.Error{Op: op, Provider: p.caps.Provider, Name: name, Err: err}
}

// Close refuses calls from now on, waits for those under way, and closes the
// driver. It takes no longer than Config.Timeout, and then says what it has left.
// It releases no lease. Closing again does nothing.
func (p *Provider) Close() error {
	if !p.calls.close() {
		return nil
	}
	p.stop()
	done := make(chan error, 1)
	go func() {
		if p.config.Detach {
			<-p.calls.idle
		}
		err := p.driver.Close()
		<-p.calls.idle
		done <- err
	}()
	limit := p.config.Timeout
	if limit <= 0 {
		limit = DefaultTimeout
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case err := <-done:
		return err
	case <-timer.C:
		err := fmt.Errorf("%w: not closed within %v: %d calls have not ended", abstractions.ErrUnavailable, limit, p.calls.underWay())
		return p.wrap("close", "", err)
	}
}

// calls counts the calls under way, and refuses more after close. It takes no lock:
// a provider in memory makes millions of calls a second.
type calls struct {
	n    atomic.Int64  // under way, plus closing after close
	idle chan struct{} // closed when none is under way after close
	once sync.Once
}

const closing = math.MinInt64 / 2

// begin reports whether a call may begin, which then must end.
func (c *calls) begin() bool {
	if c.n.Add(1) > 0 {
		return true
	}
	c.end()
	return false
}

func (c *calls) end() {
	if c.n.Add(-1) == closing {
		c.once.Do(func() { close(c.idle) })
	}
}

// close refuses calls from now on. It reports false if that was so already.
func (c *calls) close() bool {
	for {
		n := c.n.Load()
		if n < 0 {
			return false
		}
		if c.n.CompareAndSwap(n, n+closing+1) {
			c.end() // closes idle if nothing is under way
			return true
		}
	}
}

// underWay is how many calls have not ended after close.
func (c *calls) underWay() int64 { return c.n.Load() - closing }
