// Package ctrllease elects the leader among the managers of
// sigs.k8s.io/controller-runtime, or the candidates of client-go's leaderelection, with a lease on
// any backend.
//
//	lock := ctrllease.New(manager, "controllers/billing", hostname)
//	mgr, err := ctrl.NewManager(config, ctrl.Options{
//		LeaderElection:                      true,
//		LeaderElectionResourceLockInterface: lock,
//		LeaderElectionReleaseOnCancel:       true, // if all work has ended by then: see client-go
//	})
//
// # What it promises
//
// One candidate leads at a time, as the lease's backend decides. The lease lasts for LeaseDuration, in whole seconds,
// from each renewal request of client-go's loop. The loop gives up RetryPeriod + RenewDeadline after the reply to the
// last successful request, and a request that takes longer than 2 s fails. So the leader stops before another
// candidate can get the lease if LeaseDuration, less 1 % for clocks that differ, is longer than the sum of these
// three, as with the defaults (15 s, and 2 s + 10 s + 2 s). A candidate notices within RetryPeriod that the lease is
// free: it does not wait for another LeaseDuration.
//
// # What it can't promise
//
// Client-go's loop can't be notified of a loss: it polls every RetryPeriod, and gives up after
// RenewDeadline. That is too late if an operator broke the lease with Immediate, or the backend
// lost the lease. The loop then does not continue with a new lease: it ends, as with an unreachable
// backend. OnStartedLeading gets no fencing token.
package ctrllease

import (
	"cmp"
	"context"
	"encoding/json"
	"sync"
	"time"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// updateTimeout bounds a request to acquire or renew, since client-go's loop counts its deadline from the reply.
const updateTimeout = 2 * time.Second

// metadataKey is the metadata key of the lease under which client-go's record is stored.
const metadataKey = "resourcelock"

// Lock is the resourcelock.Interface of one candidate.
type Lock struct {
	manager        *leasing.Manager
	name, identity string

	mu      sync.Mutex
	lease   *leasing.Lease // this candidate's latest lease, maybe lost; nil before the first
	leading bool
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns the lock of one candidate in the election that the lease's name identifies. The identity,
// such as a host name, is a label for people. New adds a random part, since client-go's loop treats a
// record with its own identity as its own: two candidates with the same identity would both lead.
func New(manager *leasing.Manager, name, identity string) *Lock {
	return &Lock{manager: manager, name: name, identity: identity + "_" + abstractions.NewID()}
}

// Identity returns the identity given to New, with the random part.
func (l *Lock) Identity() string { return l.identity }

// Describe returns the name of the lease.
func (l *Lock) Describe() string { return l.name }

// RecordEvent records whether client-go's loop considers itself the leader.
func (l *Lock) RecordEvent(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.leading = event == "became leader"
}

// Get returns the record of the leader, or a record without a holder if there is no leader.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	found, err := l.manager.Inspect(ctx, l.name)
	if err != nil {
		return nil, nil, err
	}
	var record resourcelock.LeaderElectionRecord
	if found.Held {
		_ = json.Unmarshal([]byte(found.Metadata[metadataKey]), &record) // fails for a holder that is not a candidate
		record.HolderIdentity = cmp.Or(record.HolderIdentity, found.Fingerprint.String())
	}
	raw, err := json.Marshal(record)
	return &record, raw, err
}

// Create calls Update.
func (l *Lock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, record)
}

// Update renews the lease or, if this candidate does not lead, tries once to acquire the lease. The
// lease lasts for the record's LeaseDuration, and the request takes at most 2 s. A record without a
// holder releases the lease.
func (l *Lock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if record.HolderIdentity == "" && l.lease != nil {
		return l.lease.Release(ctx)
	}
	text, err := json.Marshal(record)
	if err != nil {
		return err
	}
	metadata := map[string]string{metadataKey: string(text)}
	ctx, cancel := context.WithTimeout(ctx, updateTimeout)
	defer cancel()
	if l.lease != nil && (l.leading || l.lease.Err() == nil) {
		return l.lease.SetMetadata(ctx, metadata)
	}
	lease, err := l.manager.With(leasing.AcquireOptions{
		TTL: time.Duration(record.LeaseDurationSeconds) * time.Second, NoAutoRenew: true, Metadata: metadata,
	}).TryAcquire(ctx, l.name)
	if err == nil {
		l.lease = lease
	}
	return err
}
