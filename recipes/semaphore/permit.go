package semaphore

import (
	"context"
	"errors"
	"sync"

	"github.com/distributedleasing/leasing"
)

// Permit is a held permit of a semaphore. It is the leasing.Lease of a slot, has all methods of a
// lease, and is safe for concurrent use.
//
// Name is the name of the slot's lease, and Token is the slot's fencing token: it
// is greater than those of the slot's earlier holders, and unrelated to those of
// other slots. See the package's documentation.
type Permit struct {
	slotLease
	slot       int
	semaphore  *Semaphore
	ctx        context.Context
	cancel     context.CancelCauseFunc
	returnSlot func() // gives the slot back to the semaphore, once
	inDo       bool   // Do releases the permit
}

// slotLease hides the embedded lease, but not its methods. If a caller could release the lease
// itself, the semaphore would still count the slot as held.
type slotLease = *leasing.Lease

// newPermit makes a permit from the lease of a slot. Its context keeps the values of ctx, the
// caller's context.
func (s *Semaphore) newPermit(ctx context.Context, slot int, lease *leasing.Lease) *Permit {
	p := &Permit{slotLease: lease, slot: slot, semaphore: s, returnSlot: sync.OnceFunc(func() { s.returnSlot(slot) })}
	p.ctx, p.cancel = context.WithCancelCause(contextWithValues{lease.Context(), context.WithoutCancel(ctx)})
	context.AfterFunc(lease.Context(), func() {
		if errors.Is(lease.Err(), leasing.ErrLost) {
			p.returnSlot()
		}
		s.failIfClosed()
	})
	return p
}

// contextWithValues is a context that also has the values of another context.
type contextWithValues struct {
	context.Context
	values context.Context // never ends, so it has no cancellation
}

func (c contextWithValues) Value(key any) any {
	if value := c.values.Value(key); value != nil {
		return value
	}
	return c.Context.Value(key)
}

// Slot is the number of the permit's slot: from 0 to one less than
// Options.Permits. Two permits that are trusted at the same time never share a slot.
func (p *Permit) Slot() int { return p.slot }

// Context ends when the permit is lost, or when its release begins. Its cause
// is Err. It keeps the values of the context that acquired the permit, but not
// its cancellation or deadline.
func (p *Permit) Context() context.Context { return p.ctx }

// Done is Context().Done().
func (p *Permit) Done() <-chan struct{} { return p.ctx.Done() }

// Err returns nil while the permit is held, and then a *leasing.LostError, or an error
// that matches leasing.ErrReleased. Like Lease.Err it reads the clocks.
func (p *Permit) Err() error {
	if err := p.slotLease.Err(); err != nil {
		return err
	}
	return context.Cause(p.ctx)
}

// Release releases the permit: see leasing.Lease. Inside Do it only cancels the context; Do
// releases when the function has returned.
func (p *Permit) Release(ctx context.Context) error {
	p.cancel(leasing.ErrReleased)
	if p.inDo {
		return nil
	}
	defer p.returnSlot()
	return p.slotLease.Release(ctx)
}

// HandOver ends the permit in this process without releasing it: see leasing.Lease. The permit is adopted
// with Manager.Adopt, as the lease of its slot. Inside Do it is refused.
func (p *Permit) HandOver(ctx context.Context) (leasing.Handover, error) {
	if p.inDo {
		return leasing.Handover{}, &leasing.InvalidError{Field: "permit", Value: p.Name(), Want: "one that Acquire returned: inside Do the function still works"}
	}
	handover, err := p.slotLease.HandOver(ctx)
	if err == nil {
		p.returnSlot()
	}
	return handover, err
}
