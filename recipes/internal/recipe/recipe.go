// Package recipe holds code that the recipes share.
package recipe

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/distributedleasing/leasing"
)

// Do runs fn with a context that ends with held or with ctx, with the cause of the first of these
// contexts to end. After fn has returned or panicked, Do calls release. The errors are joined, with
// fn's error in front.
func Do(ctx, held context.Context, fn func(ctx context.Context) error, release func() []error) (err error) {
	work, cancel := context.WithCancelCause(held)
	defer cancel(nil)
	stop := context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })
	defer func() {
		stop()
		err = Join(append([]error{err}, release()...)...)
	}()
	return fn(work)
}

// Join is like errors.Join, but returns a single error unchanged, and leaves out an error about a loss
// that an earlier error already reports.
func Join(errs ...error) error {
	var kept []error
	for _, err := range errs {
		if lost, ok := errors.AsType[*leasing.LostError](err); err != nil && !(ok && errors.Is(errors.Join(kept...), lost)) {
			kept = append(kept, err)
		}
	}
	if len(kept) == 1 {
		return kept[0]
	}
	return errors.Join(kept...)
}

// Sleep waits for d, or until ctx ends.
func Sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// Permanent reports whether the same request gets the same answer until a person changes something. A
// refusal is not permanent: see [Refusals].
func Permanent(err error) bool {
	for _, sentinel := range [...]error{leasing.ErrClosed, leasing.ErrInvalid, leasing.ErrNotSetUp, leasing.ErrUnsupported} {
		if errors.Is(err, sentinel) {
			return true
		}
	}
	return false
}

// Refusals distinguishes a temporary refusal, such as one during the rotation of a password, from a
// lasting refusal. The zero value is ready to use. It is not safe for concurrent use.
type Refusals struct{ since time.Time }

// refusalTimeout is the default of leasing.Options.RefusalTimeout.
const refusalTimeout = time.Minute

// Last reports whether all answers of the backend have been refusals for a minute, with err as its latest
// answer. An outage does not count as an answer.
func (r *Refusals) Last(err error) bool {
	switch {
	case errors.Is(err, leasing.ErrDenied):
		if r.since.IsZero() {
			r.since = time.Now()
		}
		return time.Since(r.since) >= refusalTimeout
	case err == nil, errors.Is(err, leasing.ErrHeld):
		r.since = time.Time{}
	}
	return false
}

// Closed reports whether a manager is closed. It sends no request: the empty name is invalid, but a
// closed manager returns ErrClosed before it checks the name.
func Closed(m *leasing.Manager) bool {
	_, err := m.Inspect(context.Background(), "")
	return errors.Is(err, leasing.ErrClosed)
}

// ValidateName checks the name of a recipe whose leases have that name plus a suffix of up to
// suffix bytes.
func ValidateName(name string, suffix int, c leasing.Capabilities) error {
	if err := leasing.ValidateName(name); err != nil {
		return err
	}
	limit := leasing.MaxNameBytes - suffix
	if c.MaxNameBytes > 0 {
		limit = min(limit, c.MaxNameBytes-suffix)
	}
	if len(name) > limit {
		return &leasing.InvalidError{Field: "Options.Name", Value: name, Want: fmt.Sprintf("at most %d bytes, since its leases have longer names", limit)}
	}
	return nil
}
