package multilease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// cleanUpBound bounds the time in which a failed acquire releases its leases. After that the
// releases continue in the background.
const cleanUpBound = 5 * time.Second

// Acquire waits for all names, as Manager.Acquire waits for one name. The options are those of
// Manager.With, and apply to each lease. WaitLimit bounds the wait for all names together.
// NoAutoRenew is refused.
//
// If it fails it holds nothing, except leases whose release got no answer. The
// error is that of the failed acquire, joined with those of the releases that
// followed. If a lease was lost while Acquire waited for others, the error matches
// leasing.ErrLost and holds a *MemberError.
func Acquire(ctx context.Context, manager *leasing.Manager, names []string) (*Set, error) {
	return acquire(ctx, manager, names, false)
}

// TryAcquire is like Acquire, but tries each name once and does not wait. The error matches leasing.ErrHeld if another holder
// has one of the names.
func TryAcquire(ctx context.Context, manager *leasing.Manager, names []string) (*Set, error) {
	return acquire(ctx, manager, names, true)
}

func acquire(ctx context.Context, manager *leasing.Manager, names []string, once bool) (_ *Set, err error) {
	names, err = sortedNames(names)
	if err != nil {
		return nil, err
	}
	if manager == nil {
		return nil, &leasing.InvalidError{Field: "manager", Value: nil, Want: "a leasing.Manager"}
	}
	if manager.AcquireOptions().NoAutoRenew {
		return nil, &leasing.InvalidError{Field: "AcquireOptions.NoAutoRenew", Value: true, Want: "false: leases are renewed while later names are waited for"}
	}
	set, complete := newSet(ctx), false
	defer func() {
		if !complete { // also after a panic of the application's code: a TTLPolicy, for example
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpBound)
			defer cancel()
			err = recipe.Join(append([]error{err}, set.release(ctx)...)...)
		}
	}()
	if err = set.acquireAll(ctx, manager, names, once); err != nil {
		return nil, err
	}
	complete = true
	return set, nil
}

// Do acquires all names, runs fn under the set, and releases it when fn has
// returned, or has panicked.
//
// The context that fn gets ends when a lease of the set is lost, when the
// manager is closed, when Release is called on the set, or when ctx ends;
// context.Cause says which. The leases are renewed until fn has returned.
//
// Do returns fn's error, joined with those of lost leases and of releases.
func Do(ctx context.Context, manager *leasing.Manager, names []string, fn func(ctx context.Context, set *Set) error) error {
	return do(ctx, fn, func() (*Set, error) { return Acquire(ctx, manager, names) })
}

// TryDo is like Do, but tries each name once and does not wait: see TryAcquire.
func TryDo(ctx context.Context, manager *leasing.Manager, names []string, fn func(ctx context.Context, set *Set) error) error {
	return do(ctx, fn, func() (*Set, error) { return TryAcquire(ctx, manager, names) })
}

func do(ctx context.Context, fn func(ctx context.Context, set *Set) error, acquire func() (*Set, error)) error {
	if fn == nil {
		return &leasing.InvalidError{Field: "fn", Value: nil, Want: "a function"}
	}
	set, err := acquire()
	if err != nil {
		return err
	}
	return Under(ctx, set, fn)
}

// Under is Do for a set that is already held: it runs fn, and releases the set when fn
// has returned, or has panicked.
func Under(ctx context.Context, set *Set, fn func(ctx context.Context, set *Set) error) error {
	inside := *set
	inside.inDo = true
	work := func(ctx context.Context) error { return fn(ctx, &inside) }
	return recipe.Do(ctx, set.ctx, work, func() []error { return set.release(ctx) })
}

// sortedNames returns the names in the order of their bytes, each once.
func sortedNames(names []string) ([]string, error) {
	if len(names) == 0 {
		return nil, &leasing.InvalidError{Field: "names", Value: names, Want: "at least one name"}
	}
	for i, name := range names {
		if invalid, is := errors.AsType[*leasing.InvalidError](leasing.ValidateName(name)); is {
			return nil, &leasing.InvalidError{Field: fmt.Sprintf("names[%d]", i), Value: name, Want: invalid.Want}
		}
	}
	names = slices.Clone(names)
	slices.Sort(names)
	return slices.Compact(names), nil
}

// acquireAll acquires the names in order. The wait for each ends with ctx, and
// with the set, if a lease of the set is lost.
func (s *Set) acquireAll(ctx context.Context, manager *leasing.Manager, names []string, once bool) error {
	waitCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })()
	limit, began := manager.AcquireOptions().WaitLimit, time.Now()
	for _, name := range names {
		acquireNext := manager.Acquire
		if left := limit - time.Since(began); once || limit > 0 && left <= 0 { // after the limit a free name can still be acquired
			acquireNext = manager.TryAcquire
		} else if limit > 0 {
			acquireNext = manager.With(leasing.AcquireOptions{WaitLimit: left}).Acquire
		}
		lease, err := acquireNext(waitCtx, name)
		if err != nil {
			return err
		}
		s.add(lease)
	}
	return s.Err()
}
