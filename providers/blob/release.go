package bloblease

import (
	"context"

	"github.com/distributedleasing/leasing/abstractions"
)

// Release writes into the record that the claim is over, and then gives its lease
// up. From the first write on, no request of the claim that was delayed can take
// the name: it would need the ETag before. Two requests, if the grant's state is
// the latest; without one a look comes before them.
func (d *driver) Release(ctx context.Context, req abstractions.ReleaseRequest) error {
	if s := stateOf(req.State, req.Name, req.ID, req.Token); s != nil {
		if err := d.releaseClaim(ctx, s.view, req); !isChanged(err) && !isNoContainer(err) {
			return err
		}
	}
	for range attempts {
		v, err := d.look(ctx, req.Name)
		switch {
		case err == nil:
			err = d.releaseOne(ctx, v, req)
		case isNotOurs(err) && v.locked():
			return d.releaseOverwritten(ctx, req, err)
		}
		if !isChanged(err) {
			return err
		}
	}
	return errContended
}

func (d *driver) releaseOne(ctx context.Context, v view, req abstractions.ReleaseRequest) error {
	if !v.found && v.locked() { // the record was overwritten, perhaps under this claim's lease
		if err := d.store.release(ctx, req.Name, req.ID); err == nil {
			return errChanged
		} else if !isChanged(err) {
			return err
		}
	}
	if ended, _ := v.record.Ended.Find(req.ID); !ended {
		return d.releaseClaim(ctx, v, req)
	}
	if v.locked() && v.holder() == req.ID { // released and not yet free, or broken and running out
		return d.endLease(ctx, req.Name, req.ID)
	}
	return nil
}

// releaseClaim writes that the claim is over, or that its ID is refused from now on
// although it has never held the name: its acquire may still be on its way. Where
// there is no container that can't be: an acquire creates one only after it was told
// that there is none.
func (d *driver) releaseClaim(ctx context.Context, v view, req abstractions.ReleaseRequest) error {
	r := v.rules(req.Name, req.ID)
	r.Release(req)
	next := v.record.after(r)
	if v.noContainer {
		return nil
	}
	if !v.exists {
		_, err := d.store.create(ctx, req.Name, next)
		return err
	}
	if _, err := d.store.write(ctx, req.Name, v, next); err != nil {
		return err
	}
	if v.locked() && v.record.ID == req.ID {
		return partialIf(true, d.endLease(ctx, req.Name, req.ID))
	}
	return nil
}

// releaseOverwritten gives a lease up under which somebody has replaced the record by
// content of his own. What has no record any more can't refuse an ID, and need not:
// all that is on its way for that claim meets another ETag.
func (d *driver) releaseOverwritten(ctx context.Context, req abstractions.ReleaseRequest, notOurs error) error {
	err := d.store.release(ctx, req.Name, req.ID)
	if isChanged(err) { // it is somebody else's lease
		return notOurs
	}
	return err
}

// endLease gives a lease up. That it is not there any more is as good.
func (d *driver) endLease(ctx context.Context, name, id string) error {
	err := d.store.release(ctx, name, id)
	if isChanged(err) {
		return nil
	}
	return err
}
