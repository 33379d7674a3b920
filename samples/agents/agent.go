package main

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/deadlock"
	"github.com/distributedleasing/leasing/recipes/filelock"
	"github.com/distributedleasing/leasing/recipes/multilease"
	"github.com/distributedleasing/leasing/samples/internal/app"
)

// agent edits the tree.
type agent struct {
	*app.App
	tree *filelock.Tree
}

// edit edits files and folders under their leases. An edit whose lease was lost is discarded and repeated.
func (a *agent) edit(ctx context.Context, edit string, paths []string) error {
	for {
		err := a.tree.Do(ctx, paths, func(ctx context.Context, _ *multilease.Set) error { return change(ctx, edit, paths) })
		lost, is := errors.AsType[*leasing.LostError](err)
		if !is {
			return err
		}
		slog.Warn("throws an edit away", "edit", edit, "reason", lost.Reason, "err", err)
	}
}

// editAcross holds a file and waits for a second file. It waits as a deadlock.Actor, so it gets an error if the holder of
// the second file waits for the first file. Then it gives way: it releases the first file, and acquires both in order.
func (a *agent) editAcross(ctx context.Context, edit, first, second string) error {
	set, err := a.tree.Acquire(ctx, []string{first})
	if err != nil {
		return err
	}
	actor, err := deadlock.New(a.Manager, deadlock.Options{After: 200 * time.Millisecond, Every: 400 * time.Millisecond})
	name, err2 := a.tree.LeaseName(second) // the file's lease alone, which is enough where no agent leases the folder
	if err := errors.Join(err, err2); err != nil {
		return err
	}
	actor.Add(set.Leases()[0])
	slog.Info("wants a second file", "has", first, "wants", second)
	lease, err := actor.Acquire(ctx, name)
	if cycle, is := errors.AsType[*deadlock.Error](err); is {
		slog.Warn("gives way", "deadlock", len(cycle.Waits))
		return errors.Join(set.Release(ctx), a.edit(ctx, edit, []string{first, second}))
	}
	if err != nil {
		return err
	}
	return multilease.Under(ctx, multilease.Of(ctx, append(set.Leases(), lease)...), func(ctx context.Context, _ *multilease.Set) error {
		return change(ctx, edit, []string{first, second})
	})
}
