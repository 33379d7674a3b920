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

// queueOnly is the metadata key that marks a lease that covers nothing: its holder only waits for the
// holder of the folder or file, and then releases the lease at once.
const queueOnly = "leasing.passing"

// cleanUpBound bounds the time in which a failed acquire releases its leases.
const cleanUpBound = 5 * time.Second

// attempt acquires targets.
//
// While an attempt holds leases, it waits only for greater names: for the next target,
// or for the leases below a folder, whose names are greater than the folder's. A
// folder above has a smaller name, so all leases are released before a wait for that
// folder. Therefore filelock's own waits never form a cycle.
type attempt struct {
	*Tree
	once       bool
	heldFolder string // a folder above whose queue-only lease this process holds; "": none

	held    []*leasing.Lease
	waitCtx context.Context // ends with the caller's, or with one of the leases
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

// acquire acquires targets. If another process has a folder above one of them, acquire waits for a
// queue-only lease of that folder, and retries while that lease keeps others from leasing the
// folder.
func (a attempt) acquire(ctx context.Context, wanted []target) (*multilease.Set, error) {
	for {
		set, err := a.acquireAll(ctx, wanted)
		blocked, is := errors.AsType[*blockedError](err)
		if !is || a.once {
			return set, err
		}
		queued, err := queueOnlyManager(a.manager).Acquire(ctx, blocked.folder)
		if err != nil {
			return nil, err
		}
		set, err = a.acquireWithin(ctx, queued, wanted)
		if !errors.Is(err, leasing.ErrHeld) {
			return set, err
		}
	}
}

// acquireWithin tries once to acquire targets while this process holds queued, a queue-only lease of a folder
// above. Then it releases queued.
func (a attempt) acquireWithin(ctx context.Context, queued *leasing.Lease, wanted []target) (set *multilease.Set, err error) {
	defer func() { // also after a panic of the application's code
		if released := queued.Release(ctx); released != nil && set != nil {
			set, err = nil, recipe.Join(released, set.Release(ctx))
		}
	}()
	a.once, a.heldFolder = true, queued.Name()
	return a.acquireAll(ctx, wanted)
}

// queueOnlyManager returns a manager that acquires queue-only leases.
func queueOnlyManager(manager *leasing.Manager) *leasing.Manager {
	metadata := map[string]string{queueOnly: "true"}
	maps.Copy(metadata, manager.AcquireOptions().Metadata)
	return manager.With(leasing.AcquireOptions{Metadata: metadata})
}

// acquireAll acquires the targets in order. If one fails, it releases all that it holds and returns the
// error.
func (a attempt) acquireAll(ctx context.Context, wanted []target) (_ *multilease.Set, err error) {
	complete := false
	defer func() {
		if !complete { // also after a panic of the application's code
			err = recipe.Join(append([]error{err}, a.releaseAll(ctx)...)...)
		}
	}()
	waitCtx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.waitCtx = waitCtx
	for _, one := range wanted {
		lease, err := a.acquireOne(a.manager, one.name)
		if err == nil {
			a.held = append(a.held, lease)
			defer context.AfterFunc(lease.Context(), func() { cancel(lease.Err()) })()
			err = a.checkConflicts(one)
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

// acquireOne acquires one name.
func (a *attempt) acquireOne(manager *leasing.Manager, name string) (*leasing.Lease, error) {
	if a.once {
		return manager.TryAcquire(a.waitCtx, name)
	}
	return manager.Acquire(a.waitCtx, name)
}

// releaseAll releases the held leases in reverse order.
func (a *attempt) releaseAll(ctx context.Context) (errs []error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanUpBound)
	defer cancel()
	for _, lease := range slices.Backward(a.held) {
		errs = append(errs, lease.Release(ctx))
	}
	return errs
}

// checkConflicts checks, after a target is acquired, that no other holder has a folder above the target, or a
// file or folder below.
func (a *attempt) checkConflicts(one target) error {
	if !a.leasesFolders {
		return nil
	}
	for _, folder := range one.parents() {
		if folder == a.heldFolder {
			continue
		}
		r, err := a.manager.Inspect(a.waitCtx, folder)
		if err != nil {
			return err
		}
		if covers(r) {
			return &blockedError{leasing.HeldError{Holder: r}, folder}
		}
	}
	for one.folder {
		below, err := a.heldBelow(one.name)
		if err != nil || below == nil {
			return err
		}
		if a.once {
			return &leasing.HeldError{Holder: *below}
		}
		queued, err := a.acquireOne(queueOnlyManager(a.manager), below.Name)
		if err != nil {
			return err
		}
		if err := queued.Release(a.waitCtx); err != nil {
			return err
		}
	}
	return nil
}

// covers reports whether a record shows a held lease that is not a queue-only lease.
func covers(r leasing.Record) bool {
	return r.Held && (r.Unconfirmed || r.Metadata[queueOnly] == "")
}

// heldBelow returns a held lease below a folder, or nil.
func (a *attempt) heldBelow(folder string) (*leasing.Record, error) {
	for r, err := range a.manager.List(a.waitCtx, leasing.ListOptions{Prefix: folder + "/", HeldOnly: true}) {
		if err != nil {
			return nil, err
		}
		if covers(r) {
			return &r, nil
		}
	}
	return nil, nil
}
