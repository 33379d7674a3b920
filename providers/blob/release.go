package bloblease

import (
	"context"
	"fmt"

	"github.com/distributedleasing/leasing/abstractions"
)

// release writes into the record that the claim is over, and then gives its lease
// up. From the first write on, no request of the claim that was delayed can take
// the name: it would need the ETag before. Two requests, if the grant's state is
// the latest; without one a look comes before them.
func (p *Provider) release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if s := stateOf(req.State, req.Name, req.ID, req.Token); s != nil {
		_, err := p.store.write(ctx, req.Name, s.view, s.view.record.end(released), req.ID)
		if err == nil {
			return half(p.free(ctx, req.Name, req.ID))
		}
		if !isMoved(err) {
			if _, homeless := isHomeless(err); !homeless {
				return err
			}
		}
	}
	for range attempts {
		v, err := p.look(ctx, req.Name)
		switch {
		case err == nil:
			err = p.releaseOne(ctx, v, req)
		case isForeign(err) && v.locked():
			return p.freeOverwritten(ctx, req, err)
		}
		if !isMoved(err) {
			return err
		}
	}
	return fmt.Errorf("%w: %w", abstractions.ErrUnavailable, errContended)
}

func (p *Provider) releaseOne(ctx context.Context, v view, req abstractions.ReleaseRequest) error {
	if !v.found && v.locked() { // the record was overwritten, perhaps under this claim's lease
		if err := p.store.release(ctx, req.Name, req.ID); err == nil {
			return errMoved
		} else if !isMoved(err) {
			return err
		}
	}
	mine := v.found && v.record.ID == req.ID
	if over, _ := v.record.over(req.ID); over {
		if mine && v.locked() { // released and not yet free, or broken and running out
			return p.free(ctx, req.Name, req.ID)
		}
		return nil
	}
	if !v.exists {
		return p.refuse(ctx, v, req)
	}
	if !mine {
		_, err := p.store.write(ctx, req.Name, v, v.record.refuse(req.ID), v.holder())
		return err
	}
	if _, err := p.store.write(ctx, req.Name, v, v.record.end(released), v.holder()); err != nil {
		return err
	}
	if v.locked() {
		return half(p.free(ctx, req.Name, req.ID))
	}
	return nil
}

// freeOverwritten gives a lease up under which somebody has replaced the record by
// content of his own. What has no record any more can't refuse an ID, and need not:
// all that is on its way for that claim meets another ETag.
func (p *Provider) freeOverwritten(ctx context.Context, req abstractions.ReleaseRequest, foreign error) error {
	err := p.store.release(ctx, req.Name, req.ID)
	if isMoved(err) { // it is somebody else's lease
		return foreign
	}
	return err
}

// refuse remembers an ID for a name that was never seen: its acquire may still be
// on its way. Where there is no container it can't be: an acquire creates one
// only after it was told that there is none.
func (p *Provider) refuse(ctx context.Context, v view, req abstractions.ReleaseRequest) error {
	if v.homeless {
		return nil
	}
	_, err := p.store.create(ctx, req.Name, v.record.refuse(req.ID))
	return err
}

// free gives a lease up. That it is not there any more is as good.
func (p *Provider) free(ctx context.Context, name, id string) error {
	err := p.store.release(ctx, name, id)
	if isMoved(err) {
		return nil
	}
	return err
}
