package providerkit

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Call runs an operation that is not part of abstractions.Provider, such as a sweep
// or a migration, under the same rules. Errors contain op and name; name is the
// name of a lease, or "".
func Call(ctx context.Context, p *Provider, op, name string, do func(context.Context) error) error {
	_, err := run(ctx, p, op, name, "", nil, do, func(_ Driver, ctx context.Context, do func(context.Context) error) (none struct{}, err error) {
		return none, do(ctx)
	})
	return err
}

// callDetached makes a call in a goroutine that Close waits for. It returns by the time own ends, even if the goroutine
// continues.
func callDetached[R, T any](own context.Context, p *Provider, req R, do func(Driver, context.Context, R) (T, error)) (T, error) {
	type answer struct {
		value T
		err   error
	}
	done := make(chan answer, 1)
	var a answer
	Go(func() (err error) {
		if err = own.Err(); err == nil {
			a.value, err = do(p.driver, own, req)
		}
		return err
	}, func(err error) {
		a.err = err
		done <- a
		p.end()
	})
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

// explain turns an error from the driver into one of package abstractions, with both
// in its chain. ctx is the caller's context, own the call's.
func (p *Provider) explain(ctx, own context.Context, err error) error {
	if err == nil {
		return nil
	}
	ended := own.Err()
	if ended != nil {
		err = withoutCause(own, err)
	}
	if source := credentialError(err); source != nil && !strings.HasPrefix(err.Error(), source.class.Error()) {
		err = source // without the text about the store that the client library has added
	}
	answered := isClassified(err)
	if !answered {
		m := p.driver.Classify(err)
		if ended != nil && m.Class == Refused {
			m.Class = Unknown // such as an abandoned wait for a lock
		}
		err = m.Of(err)
	}
	definite := abstractions.NotApplied(err)
	switch {
	case ended == nil || answered && definite:
		return err
	case ctx.Err() == nil && p.running.Err() != nil && !definite:
		return fmt.Errorf("%w: the provider was closed during the call", abstractions.ErrUnavailable)
	}
	if text, unavailable := strings.CutPrefix(err.Error(), abstractions.ErrUnavailable.Error()+": "); unavailable && !errors.Is(err, ended) {
		return &textError{fmt.Sprintf("%v: %v: %s", abstractions.ErrUnavailable, ended, text), []error{ended, err}}
	}
	return prefixError(ended, err)
}

// wrap adds the failed call and the fingerprint of the claim to an error; id is "" if there is no
// claim.
func (p *Provider) wrap(op, name, id string, err error) error {
	if err == nil {
		return nil
	}
	return &abstractions.Error{Op: op, Provider: p.caps.Provider, Name: name, Err: err, Fingerprint: abstractions.FingerprintOf(id)}
}

// Close refuses new calls, waits for those in flight, and closes the driver. It
// takes at most Config.Timeout; if calls are still in flight after that, the error
// gives their number. It does not release leases. Closing again does nothing.
func (p *Provider) Close() error {
	if p.closed.Swap(true) {
		return nil
	}
	p.calls.Add(1)
	p.end() // closes idle if nothing is under way
	p.stop()
	done := make(chan error, 1)
	Go(func() error {
		if p.config.Detach {
			<-p.idle
		}
		err := p.driver.Close()
		<-p.idle
		return err
	}, func(err error) { done <- err })
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
		err := fmt.Errorf("%w: not closed within %v: %d calls have not ended", abstractions.ErrUnavailable, limit, p.calls.Load())
		return p.wrap("close", "", "", err)
	}
}

// Sweep forgets all names of a provider that have been idle for its retention, page by page, with one call for each page, and
// returns how many it has forgotten. The function page sweeps the page that begins after a given place, "" at first, and returns
// the place where that page ends, "" at the end of the store: see cas.Records.SweepPage.
func Sweep(ctx context.Context, p *Provider, page func(ctx context.Context, after string) (forgotten int, next string, err error)) (forgotten int, err error) {
	var all atomic.Int64 // a detached call may continue after its error: see Config.Detach
	for after, more := "", true; more && err == nil; more = after != "" {
		places := make(chan string, 1)
		err = Call(ctx, p, "sweep", "", func(ctx context.Context) error {
			n, next, err := page(ctx, after)
			all.Add(int64(n))
			places <- next
			return err
		})
		if err == nil {
			after = <-places
		}
	}
	return int(all.Load()), err
}
