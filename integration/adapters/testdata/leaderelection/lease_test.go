package leaderelection

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/api/errors"
	rl "k8s.io/client-go/tools/leaderelection/resourcelock"

	ctrllease "github.com/distributedleasing/leasing/adapters/controllerruntime"
	"github.com/distributedleasing/leasing/integration/adapters/hosttest"
)

// leaseLock is the adapter's lock behind the lock of a test. Each request first goes to the test's lock, whose
// client counts and refuses requests. The record is that of the lease. No client of these tests obeys its context,
// and some contexts have ended.
type leaseLock struct {
	rl.Interface
	t     *testing.T
	lease *ctrllease.Lock
	began bool
	last  atomic.Pointer[rl.LeaderElectionRecord] // as written
}

// leased puts the adapter's lock behind the lock of a test. At the end the lease has the holder that was written last.
func leased(t *testing.T, lock rl.Interface) rl.Interface {
	l := &leaseLock{Interface: lock, t: t, lease: ctrllease.New(hosttest.NewManager(), t.Name(), lock.Identity())}
	t.Cleanup(func() {
		require.Eventually(t, func() bool {
			found, _, err := l.lease.Get(context.Background())
			last := l.last.Load()
			return err == nil && (last == nil || found.HolderIdentity == last.HolderIdentity)
		}, 10*time.Second, 10*time.Millisecond)
	})
	return l
}

func (l *leaseLock) Get(ctx context.Context) (*rl.LeaderElectionRecord, []byte, error) {
	record, raw, err := l.Interface.Get(ctx)
	if !l.began && (err == nil || errors.IsNotFound(err)) {
		l.began = true
		l.begin(record)
	}
	if err != nil {
		return record, raw, err
	}
	return l.lease.Get(context.WithoutCancel(ctx))
}

// begin acquires the lease for the holder that a test finds at its first request.
func (l *leaseLock) begin(record *rl.LeaderElectionRecord) {
	if record == nil || record.HolderIdentity == "" {
		return
	}
	holder := l.lease
	if record.HolderIdentity != l.Identity() {
		holder = ctrllease.New(hosttest.NewManager(), l.t.Name(), record.HolderIdentity)
	}
	require.NoError(l.t, holder.Update(context.Background(), *record))
}

func (l *leaseLock) Create(ctx context.Context, record rl.LeaderElectionRecord) error {
	if err := l.Interface.Create(ctx, record); err != nil {
		return err
	}
	return l.write(ctx, record)
}

func (l *leaseLock) Update(ctx context.Context, record rl.LeaderElectionRecord) error {
	if err := l.Interface.Update(ctx, record); err != nil {
		return err
	}
	return l.write(ctx, record)
}

func (l *leaseLock) write(ctx context.Context, record rl.LeaderElectionRecord) error {
	l.last.Store(&record)
	return l.lease.Update(context.WithoutCancel(ctx), record)
}

func (l *leaseLock) RecordEvent(event string) {
	l.Interface.RecordEvent(event)
	l.lease.RecordEvent(event)
}
