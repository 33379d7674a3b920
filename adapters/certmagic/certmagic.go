// Package certmagiclease implements the locks of github.com/caddyserver/certmagic as
// leases, with any storage for the certificates.
//
//	config.Storage = certmagiclease.New(&certmagic.FileStorage{Path: shared}, manager, "tls/")
//
// # What it promises
//
// One process at a time has a certmagic lock: the backend of the leases decides, not timestamps in
// files. The lease is renewed until certmagic unlocks the lock, and runs out if the process dies.
// Certmagic renews the lock ([Storage.RenewLockLease]) before each attempt to get a certificate: if
// the lease is lost and another process has the lock, the attempt does not begin.
//
// # What it can't promise
//
// Certmagic gives a locker no way to cancel work, so an attempt that has begun
// continues after a loss, and its certificate is stored. Certmagic tolerates that: its
// attempts can be repeated. Unlock then returns the *leasing.LostError, which certmagic
// logs, unless another attempt followed.
package certmagiclease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/distributedleasing/leasing"
)

// Storage is a certmagic.Storage whose locks are leases; the embedded storage does everything else.
// It is safe for concurrent use.
type Storage struct {
	certmagic.Storage
	manager *leasing.Manager
	prefix  string

	mu     sync.Mutex
	leases map[string]*leasing.Lease
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New returns a storage whose locks are leases. The name of a lease is prefix followed by the lock's name.
func New(storage certmagic.Storage, manager *leasing.Manager, prefix string) *Storage {
	return &Storage{Storage: storage, manager: manager, prefix: prefix, leases: map[string]*leasing.Lease{}}
}

// Lock waits for the lock's lease, like Manager.Acquire. The error matches leasing.ErrHeld if this
// storage has lost the lock's lease and Unlock has not been called yet.
func (s *Storage) Lock(ctx context.Context, name string) error {
	lease, err := s.manager.Acquire(ctx, s.prefix+name)
	if err != nil {
		return err
	}
	return s.store(ctx, name, lease)
}

// TryLock tries once to acquire the lock's lease. It returns false and no error if another holder has the lock.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	lease, err := s.manager.TryAcquire(ctx, s.prefix+name)
	if err == nil {
		err = s.store(ctx, name, lease)
	}
	if errors.Is(err, leasing.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// Unlock releases the lease. Its error matches leasing.ErrLost if the lease was lost
// before. No second Unlock is needed.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	lease := s.leases[name]
	delete(s.leases, name)
	s.mu.Unlock()
	if lease == nil {
		return errNotLocked(name)
	}
	return lease.Release(ctx)
}

// RenewLockLease renews the lease now. The lease lasts until Unlock, whatever duration is passed.
// If the lease is lost, and the lock has no other holder, the lock gets another lease: certmagic
// tries for 30 days under one lock, and calls RenewLockLease between two attempts.
func (s *Storage) RenewLockLease(ctx context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	lease := s.leases[name]
	s.mu.Unlock()
	if lease == nil {
		return errNotLocked(name)
	}
	err := lease.Renew(ctx)
	if !errors.Is(err, leasing.ErrLost) {
		return err
	}
	next, err := s.manager.TryAcquire(ctx, s.prefix+name)
	if err != nil {
		return err
	}
	s.mu.Lock()
	locked := s.leases[name] == lease
	if locked {
		s.leases[name] = next
	}
	s.mu.Unlock()
	if !locked {
		return errors.Join(errNotLocked(name), next.Release(ctx))
	}
	return nil
}

// store stores a new lease. It fails if the lock still has an earlier lease: that lease is lost, but
// its work continues, and the Unlock of that work would release the new lease.
func (s *Storage) store(ctx context.Context, name string, lease *leasing.Lease) error {
	s.mu.Lock()
	existing := s.leases[name]
	if existing == nil {
		s.leases[name] = lease
	}
	s.mu.Unlock()
	if existing == nil {
		return nil
	}
	return errors.Join(fmt.Errorf("certmagiclease: %q lost its lease and is not unlocked yet: %w", name, leasing.ErrHeld), lease.Release(ctx))
}

func errNotLocked(name string) error {
	return fmt.Errorf("certmagiclease: %q is not locked here", name)
}
