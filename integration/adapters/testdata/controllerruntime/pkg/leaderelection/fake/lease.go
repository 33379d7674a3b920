package fake

import (
	"context"

	"k8s.io/client-go/tools/leaderelection/resourcelock"

	ctrllease "github.com/distributedleasing/leasing/adapters/controllerruntime"
	"github.com/distributedleasing/leasing/integration/adapters/hosttest"
)

// leaseLock is the adapter's lock behind the fake one, which can refuse requests.
type leaseLock struct {
	*resourceLock
	lease *ctrllease.Lock
}

func leased(lock *resourceLock) *leaseLock {
	return &leaseLock{lock, ctrllease.New(hosttest.NewManager(), "fake/"+lock.id, lock.id)}
}

func (l *leaseLock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	return l.lease.Get(ctx)
}

func (l *leaseLock) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.resourceLock.Create(ctx, record); err != nil {
		return err
	}
	return l.lease.Create(ctx, record)
}

func (l *leaseLock) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	if err := l.resourceLock.Update(ctx, record); err != nil {
		return err
	}
	return l.lease.Update(ctx, record)
}

func (l *leaseLock) RecordEvent(event string) { l.lease.RecordEvent(event) }
