package multilease

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
)

// Set is a set of leases that are held together. It is safe for concurrent use.
type Set struct {
	leases []*leasing.Lease // in canonical order
	ctx    context.Context
	cancel context.CancelCauseFunc
	inDo   bool
}

// MemberError says which lease of a set an error is about.
type MemberError struct {
	Name string
	Err  error // of the lease: a *leasing.LostError, for example
}

func (e *MemberError) Error() string { return fmt.Sprintf("multilease: %q: %v", e.Name, e.Err) }
func (e *MemberError) Unwrap() error { return e.Err }

func newSet(ctx context.Context) *Set {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	return &Set{ctx: ctx, cancel: cancel}
}

func (s *Set) add(lease *leasing.Lease) {
	s.leases = append(s.leases, lease)
	context.AfterFunc(lease.Context(), func() { s.ended(lease) })
}

// ended ends the set because one of its leases has ended.
func (s *Set) ended(lease *leasing.Lease) {
	s.cancel(&MemberError{Name: lease.Name(), Err: lease.Err()})
}

// Leases returns the leases in the order of their names' bytes.
func (s *Set) Leases() []*leasing.Lease { return slices.Clone(s.leases) }

// Lease returns the lease of a name, or nil if the set does not contain the name.
func (s *Set) Lease(name string) *leasing.Lease {
	for _, lease := range s.leases {
		if lease.Name() == name {
			return lease
		}
	}
	return nil
}

// Remaining returns the time for which the whole set can be trusted without further renewals: the
// minimum over its leases.
func (s *Set) Remaining() time.Duration {
	least := leasing.Infinite
	for _, lease := range s.leases {
		least = min(least, lease.Remaining())
	}
	return least
}

// Context ends when any of the leases ends, or when the release of the set
// begins. Its cause is Err. It keeps the values of the context that acquired
// the set, but not its cancellation or deadline.
func (s *Set) Context() context.Context { return s.ctx }

// Done is Context().Done().
func (s *Set) Done() <-chan struct{} { return s.ctx.Done() }

// Err returns nil while all leases are held, and then a *MemberError that names the first lease to
// end, or leasing.ErrReleased. Like Lease.Err it reads the clocks.
func (s *Set) Err() error {
	for _, lease := range s.leases {
		if lease.Err() != nil {
			s.ended(lease)
			break
		}
	}
	return context.Cause(s.ctx)
}

// Release releases all leases, in reverse order, and returns their joined errors. See
// Lease.Release, which also describes what happens when ctx ends. A second Release returns the same
// errors. Inside Do it only cancels the context; Do releases when the function has returned.
func (s *Set) Release(ctx context.Context) error {
	if s.inDo {
		s.cancel(leasing.ErrReleased)
		return nil
	}
	return recipe.Join(s.release(ctx)...)
}

// release returns the errors of the releases, in the order of the names.
func (s *Set) release(ctx context.Context) []error {
	s.cancel(leasing.ErrReleased)
	errs := make([]error, len(s.leases))
	var rest sync.WaitGroup
	for i, lease := range slices.Backward(s.leases) {
		release := func() { errs[i] = lease.Release(ctx) }
		if ctx.Err() == nil {
			release()
			continue
		}
		// ctx has ended, so each release takes up to a second. They run in parallel, so together
		// they take no longer.
		rest.Go(release)
	}
	rest.Wait()
	return errs
}
