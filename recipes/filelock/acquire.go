package filelock

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/internal/recipe"
	"github.com/distributedleasing/leasing/recipes/multilease"
)

// passing is the key of the metadata of a lease that covers nothing: its holder waits
// for its turn after whoever has the folder or the file, and lets go at once.
const passing = "leasing.passing"

// cleanUpBound is how long a failed acquire takes at most to release what it had.
const cleanUpBound = 5 * time.Second

// attempt is one way to acquire targets.
//
// All waits of one that holds leases go up in the order of names: for the next target,
// or for what is below a folder, whose names are greater than the folder's. A folder
// above is smaller, so what is held is given up before it is waited for. So
// filelock's own waits make no circle.
type attempt struct {
	*Tree
	once    bool
	through string // a folder above that this process is passing through; "": none

	held []*leasing.Lease
	wait context.Context // ends with the caller's, or with one of the leases
}

// blockedError says that somebody has a folder above a target.
type blockedError struct {
	leasing.HeldError
	folder string
}

func (e *blockedError) Error() string {
	return fmt.Sprintf("the folder %q: %v", e.folder, &e.HeldError)
}
func (e *blockedError) Unwrap() error { return &e.HeldError }

// acquire acquires targets. Where a folder above is somebody's it waits until that is
// free, and tries while nobody can take it.
func (a attempt) acquire(ctx context.Context, wanted []target) (*multilease.Set, error) {
	for {
		set, err := a.all(ctx, wanted)
		blocked, is := errors.AsType[*blockedError](err)
		if !is || a.once {
			return set, err
		}
		turn, err := pass(a.manager).Acquire(ctx, blocked.folder)
		if err != nil {
			return nil, err
		}
		set, err = a.inside(ctx, turn, wanted)
		if !errors.Is(err, leasing.ErrHeld) {
			return set, err
		}
	}
}

// inside tries while this process is passing through a folder above, which it then leaves.
func (a attempt) inside(ctx context.Context, turn *leasing.Lease, wanted []target) (set *multilease.Set, err error) {
	defer func() { // also after a panic of the application's code
		if released := turn.Release(ctx); released != nil && set != nil {
			set, err = nil, recipe.Join(released, set.Release(ctx))
		}
	}()
	a.once, a.through = true, turn.Name()
	return a.all(ctx, wanted)
}

// pass returns a manager of leases that cover nothing.
func pass(manager *leasing.Manager) *leasing.Manager {
	metadata := map[string]string{passing: "true"}
	maps.Copy(metadata, manager.AcquireOptions().Metadata)
	return manager.With(leasing.AcquireOptions{Metadata: metadata})
}

// all acquires the targets in their order, or nothing.
func (a attempt) all(ctx context.Context, wanted []target) (_ *multilease.Set, err error) {
	complete := false
	defer func() {
		if !complete { // also after a panic of the application's code
			err = recipe.Join(append([]error{err}, a.letGo(ctx)...)...)
		}
	}()
	wait, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.wait = wait
	for _, one := range wanted {
		lease, err := a.ask(a.manager, one.name)
		if err == nil {
			a.held = append(a.held, lease)
			defer context.AfterFunc(lease.Context(), func() { cancel(lease.Err()) })()
			err = a.look(one)
		}
		if err != nil {
			return nil, err
		}
	}
	set := multilease.Of(ctx, a.held...)
	if err := set.Err(); err != nil {
		return nil, err
	}
	complete = true
	return set, nil
}

// ask acquires one name.
func (a *attempt) ask(manager *leasing.Manager, name string) (*leasing.Lease, error) {
	if a.once {
		return manager.TryAcquire(a.wait, name)
	}
	return manager.Acquire(a.wait, name)
}

// letGo releases what is held, the last first.
func (a *attempt) letGo(ctx context.Context) (errs []error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpBound)
	defer cancel()
	for _, lease := range slices.Backward(a.held) {
		errs = append(errs, lease.Release(ctx))
	}
	return errs
}

// look makes sure, once a target is held, that nobody has a folder above it, nor
// anything below.
func (a *attempt) look(one target) error {
	if !a.covers {
		return nil
	}
	for _, folder := range one.above() {
		if folder == a.through {
			continue
		}
		r, err := a.manager.Inspect(a.wait, folder)
		if err != nil {
			return err
		}
		if covers(r) {
			return &blockedError{leasing.HeldError{Holder: r}, folder}
		}
	}
	for one.folder {
		below, err := a.below(one.name)
		if err != nil || below == nil {
			return err
		}
		if a.once {
			return &leasing.HeldError{Holder: *below}
		}
		turn, err := a.ask(pass(a.manager), below.Name)
		if err != nil {
			return err
		}
		if err := turn.Release(a.wait); err != nil {
			return err
		}
	}
	return nil
}

// covers reports whether a record is of a lease that is somebody's, and not of one who
// passes.
func covers(r leasing.Record) bool {
	return r.Held && (r.Unconfirmed || r.Metadata[passing] == "")
}

// below returns a lease that somebody has below a folder; nil if there is none.
func (a *attempt) below(folder string) (*leasing.Record, error) {
	for r, err := range a.manager.List(a.wait, leasing.ListOptions{Prefix: folder + "/", HeldOnly: true}) {
		if err != nil {
			return nil, err
		}
		if covers(r) {
			return &r, nil
		}
	}
	return nil, nil
}
