// Package gooselease runs the migrations of github.com/pressly/goose/v3 under a
// lease, so that only one of many processes that start together migrates.
//
//	locker := gooselease.New(manager, "orders/migrate")
//	ctx, stop := locker.Context(ctx)
//	defer stop()
//	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithLocker(locker))
//	...
//	results, err := provider.Up(ctx)
//
// # What it promises
//
// Goose calls Lock before it checks which migrations are pending, and Unlock after the
// last migration. In between the lease is renewed, however long a migration takes. If the lease is
// lost, the context of [Locker.Context] ends, before another process can have the name, and the
// error of Up matches leasing.ErrLost.
//
// # What it can't promise
//
// Goose gives a locker no way to cancel migrations: pass the context of Locker.Context
// to Up; otherwise only the error that Up returns reports the loss. A statement that is already
// running may still finish.
package gooselease

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"sync"

	"github.com/pressly/goose/v3/lock"

	"github.com/distributedleasing/leasing"
)

// Locker is a lock.Locker of goose. It is safe for concurrent use by the migrations of
// one database. The database that goose passes to it is not used: the lease is in the
// backend of its manager.
type Locker struct {
	manager *leasing.Manager
	name    string

	mu      sync.Mutex
	lease   *leasing.Lease // nil unless locked
	cancels map[*context.CancelCauseFunc]context.CancelCauseFunc
}

var _ lock.Locker = (*Locker)(nil)

// New returns a locker whose lease has the given name and the options of Manager.With. With a
// WaitLimit, Lock gives up after that time, with an error that matches leasing.ErrHeld.
func New(manager *leasing.Manager, name string) *Locker {
	return &Locker{manager: manager, name: name, cancels: map[*context.CancelCauseFunc]context.CancelCauseFunc{}}
}

// Context returns a context that ends when ctx ends, or when a lease of the locker is lost. After a
// loss its cause is the *leasing.LostError. Call stop when the context is no longer needed.
func (l *Locker) Context(ctx context.Context) (leaseCtx context.Context, stop func()) {
	leaseCtx, cancel := context.WithCancelCause(ctx)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.cancels[&cancel] = cancel
	return leaseCtx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.cancels, &cancel)
		cancel(nil)
	}
}

// Lock waits for the lease, like Manager.Acquire. The error matches leasing.ErrHeld if this locker
// has lost its lease and has not been unlocked yet.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error {
	lease, err := l.manager.Acquire(ctx, l.name)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lease != nil { // l.lease is lost, but its migrations continue, and their Unlock would release the new lease
		return errors.Join(fmt.Errorf("gooselease: %q lost its lease and is not unlocked yet: %w", l.name, leasing.ErrHeld), lease.Release(ctx))
	}
	l.lease = lease
	context.AfterFunc(lease.Context(), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, cancel := range l.cancels {
			if errors.Is(lease.Err(), leasing.ErrLost) {
				cancel(lease.Err())
			}
		}
	})
	return nil
}

// Unlock releases the lease. Its error matches leasing.ErrLost if the lease was lost
// before.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	l.mu.Lock()
	lease := l.lease
	l.lease = nil
	l.mu.Unlock()
	if lease == nil {
		return errors.New("gooselease: unlock without a lock")
	}
	return lease.Release(ctx)
}
