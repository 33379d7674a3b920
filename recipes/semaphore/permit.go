package semaphore

import (
	"context"
	"errors"
	"sync"

	"github.com/distributedleasing/leasing"
)

// Permit is one of a semaphore's permits, held. It is the leasing.Lease of a
// slot, with all the methods of one, and safe for concurrent use.
type Permit struct {
	slotLease
	slot      int
	semaphore *Semaphore
	ctx       context.Context
	cancel    context.CancelCauseFunc
	gone      *sync.Once // done when the semaphore knows that the slot is not ours any more
	within    bool       // a Do, which alone releases it
}

// slotLease hides the field, not its methods: a lease that is released behind
// the semaphore's back would leave it counting on a slot that it hasn't got.
type slotLease = leasing.Lease

var _ leasing.Lease = (*Permit)(nil)

// permit makes a permit of the lease of a slot, for the caller whose context
// is given. It keeps that context's values.
func (s *Semaphore) permit(ctx context.Context, slot int, lease leasing.Lease) *Permit {
	p := &Permit{slotLease: lease, slot: slot, semaphore: s, gone: new(sync.Once)}
	p.ctx, p.cancel = context.WithCancelCause(valued{lease.Context(), context.WithoutCancel(ctx)})
	context.AfterFunc(lease.Context(), p.ended)
	return p
}

// valued is a context that has the values of another one as well.
type valued struct {
	context.Context
	values context.Context // never ends, so it has nothing to say of cancellation
}

func (c valued) Value(key any) any {
	if value := c.values.Value(key); value != nil {
		return value
	}
	return c.Context.Value(key)
}

// Slot is the number of the permit's slot: from 0 to one less than
// Options.Permits. No two permits that are trusted at a moment share one.
func (p *Permit) Slot() int { return p.slot }

// Name is that of the slot's lease: the one to fence by. See the package's
// documentation.
func (p *Permit) Name() string { return p.slotLease.Name() }

// Token is the slot's fencing token: greater than those of the slot's earlier
// holders, and unrelated to those of other slots.
func (p *Permit) Token() int64 { return p.slotLease.Token() }

// Context ends when the permit is lost, or when its release begins. Its cause
// is Err. It keeps the values of the context that acquired the permit, but not
// its cancellation or deadline.
func (p *Permit) Context() context.Context { return p.ctx }

// Done is Context().Done().
func (p *Permit) Done() <-chan struct{} { return p.ctx.Done() }

// Err is nil while the permit is held, then a *leasing.LostError, or an error
// that matches leasing.ErrReleased. Like Lease.Err it reads the clocks.
func (p *Permit) Err() error {
	if err := p.slotLease.Err(); err != nil {
		return err
	}
	return context.Cause(p.ctx)
}

// Release gives the permit up: see leasing.Lease. Inside Do it only cancels the
// context; Do releases when the function has returned.
func (p *Permit) Release(ctx context.Context) error {
	p.cancel(leasing.ErrReleased)
	if p.within {
		return nil
	}
	err := p.slotLease.Release(ctx)
	p.gone.Do(func() { p.semaphore.returned(p.slot) })
	return err
}

// HandOver ends the permit here without giving it up: see leasing.Lease. It is
// adopted with Manager.Adopt, as the lease of its slot. Inside Do it is refused.
func (p *Permit) HandOver(ctx context.Context) (leasing.Handover, error) {
	if p.within {
		return leasing.Handover{}, &leasing.InvalidError{Field: "permit", Value: p.Name(), Want: "one that Acquire returned: inside Do the function still works"}
	}
	handover, err := p.slotLease.HandOver(ctx)
	if err == nil {
		p.gone.Do(func() { p.semaphore.returned(p.slot) })
	}
	return handover, err
}

// inDo is the permit as the function in a Do sees it.
func (p *Permit) inDo() *Permit {
	inside := *p
	inside.within = true
	return &inside
}

// ended hears that the context of the permit's lease has ended.
func (p *Permit) ended() {
	switch err := p.slotLease.Err(); {
	case errors.Is(err, leasing.ErrLost):
		p.gone.Do(func() { p.semaphore.returned(p.slot) })
	case errors.Is(err, leasing.ErrClosed):
		// Those who wait for one of our own permits have no request under way
		// that would tell them that the manager is being closed.
		p.semaphore.close()
	}
}
