// Package gocronlease makes github.com/go-co-op/gocron/v2 run each job in one of
// many processes: the process that has the job's lease ([Locker]), or the
// elected leader ([Elector]).
//
//	elector, err := gocronlease.NewElector(manager, "billing/scheduler")
//	...
//	go elector.Run(ctx)
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedElector(elector))
//
// # What it promises
//
// With a Locker two processes do not run a job at the same time. With Locker.AtLeast, a
// process whose clock is behind does not repeat a short job for the same tick; AtLeast should be
// longer than the difference between the processes' clocks, and shorter than the job's period. With
// an Elector jobs start only in the process that leads at that moment.
//
// # What it can't promise
//
// Gocron gives Locker and Elector no way to cancel a job. A job that can be interrupted
// uses the context of its lease ([Locker.Lease]) or of the leader's term (package
// election). A leader that has lost its term starts no further job, but a running job
// continues, perhaps at the same time as the next leader's job. The same holds for a Locker's job
// that ignores its context. If a job must run once per tick, even when a process dies during the
// job, use package schedule instead of gocron.
package gocronlease

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/recipes/election"
)

// Locker is a gocron.Locker: see gocron.WithDistributedLocker. It is safe for concurrent
// use. Do not change its fields after the first use.
type Locker struct {
	Manager *leasing.Manager // Manager.With sets the options of the leases
	// Prefix comes before the job's name in the name of its lease.
	Prefix string
	// AtLeast is the time for which the name of a job's lease stays taken, counted from the
	// start of the job, even if the job or the process ends earlier: see
	// leasing.AcquireOptions.AtLeast. 0 means the AtLeast of Manager.
	AtLeast time.Duration

	leases sync.Map // by key
}

// Lock tries once to acquire the job's lease. The error matches leasing.ErrHeld if another process
// runs the job, or if this process still runs the job although the lease was lost.
func (l *Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	lease, err := l.Manager.With(leasing.AcquireOptions{AtLeast: l.AtLeast}).TryAcquire(ctx, l.Prefix+key)
	if err != nil {
		return nil, err
	}
	if _, runs := l.leases.LoadOrStore(key, lease); runs { // Lease keeps returning the lease of that run, although it is lost
		return nil, errors.Join(fmt.Errorf("gocronlease: %q lost its lease and still runs: %w", key, leasing.ErrHeld), lease.Release(ctx))
	}
	return &lock{l, key, lease}, nil
}

// Lease returns the lease under which this process runs the job, or nil. The lease's context ends
// before another process can run the job; its fencing token protects the job's writes.
func (l *Locker) Lease(key string) *leasing.Lease {
	lease, _ := l.leases.Load(key)
	held, _ := lease.(*leasing.Lease)
	return held
}

type lock struct {
	locker *Locker
	key    string
	lease  *leasing.Lease
}

// Unlock releases the lease. The error matches leasing.ErrLost if the lease was lost before.
func (k *lock) Unlock(ctx context.Context) error {
	k.locker.leases.CompareAndDelete(k.key, k.lease)
	return k.lease.Release(ctx)
}

// ErrNotLeader means that this process does not lead.
var ErrNotLeader = errors.New("gocronlease: this process does not lead")

// Elector is a gocron.Elector, and a candidate of package election: call Run, and call Resign
// before the process ends.
type Elector struct{ *election.Candidate }

var (
	_ gocron.Locker  = (*Locker)(nil)
	_ gocron.Elector = (*Elector)(nil)
)

// NewElector returns a candidate in the election of the given name.
func NewElector(manager *leasing.Manager, name string) (*Elector, error) {
	candidate, err := election.New(manager, election.Options{Name: name, OnElected: func(ctx context.Context, _ *leasing.Lease) error {
		<-ctx.Done()
		return context.Cause(ctx)
	}})
	if err != nil {
		return nil, err
	}
	return &Elector{candidate}, nil
}

// IsLeader returns nil if this process currently leads. It sends no request.
func (e *Elector) IsLeader(context.Context) error {
	if e.Candidate.IsLeader() {
		return nil
	}
	return ErrNotLeader
}
