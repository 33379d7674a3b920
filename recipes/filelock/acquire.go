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

// passing is the metadata key of a lease that covers nothing: its holder waits behind the holder of
// the folder or the file, and releases the lease at once.
const passing = "leasing.passing"

// cleanUpBound bounds the time in which a failed acquire releases its leases.
const cleanUpBound = 5 * time.Second

// attempt acquires targets.
//
// While an attempt holds leases, it waits only for greater names: for the next target,
// or for the leases below a folder, whose names are greater than the folder's. A
// folder above has a smaller name, so all leases are released before a wait for that
// folder. So filelock's own waits never form a circle.
type attempt struct {
	*Tree
	once    bool
	through string // a folder above that this process is passing through; "": none

	held []*leasing.Lease
	wait context.Context // ends with the caller's, or with one of the leases
}

// blockedError says that another holder has a folder above a target.
type blockedError struct {
	leasing.HeldError
	folder string
}

func (e *blockedError) Error() string {
	return fmt.Sprintf("the folder %q: %v", e.folder, &e.HeldError)
}
func (e *blockedError) Unwrap() error { return &e.HeldError }

// acquire acquires targets. If a folder above has a holder, it waits until the folder is free, and
// retries while it keeps others from taking the folder.
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

// inside tries while this process holds a passing lease of a folder above, which it then releases.
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

// all acquires the targets in their order. On a failure it releases them and returns the error.
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

// letGo releases the held leases in reverse order.
func (a *attempt) letGo(ctx context.Context) (errs []error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpBound)
	defer cancel()
	for _, lease := range slices.Backward(a.held) {
		errs = append(errs, lease.Release(ctx))
	}
	return errs
}

// look checks, after a target is acquired, that no other holder has a folder above the target, or a
// file or folder below.
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

// covers reports whether a record shows a held lease that is not a passing lease.
func covers(r leasing.Record) bool {
	return r.Held && (r.Unconfirmed || r.Metadata[passing] == "")
}

// below returns a held lease below a folder, or nil.
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
