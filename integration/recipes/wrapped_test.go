package recipes

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
	"github.com/distributedleasing/leasing/recipes/assign"
	"github.com/distributedleasing/leasing/recipes/election"
	"github.com/distributedleasing/leasing/recipes/multilease"
	"github.com/distributedleasing/leasing/recipes/schedule"
	"github.com/distributedleasing/leasing/recipes/semaphore"
)

// wrapper is an application's manager around the library's manager. It counts the leases that it
// returns, and their releases.
type wrapper struct {
	abstractions.Manager
	acquires, releases atomic.Int64
}

type wrappedLease struct {
	abstractions.Lease
	w *wrapper
}

func (w *wrapper) wrap(l abstractions.Lease, err error) (abstractions.Lease, error) {
	if err != nil {
		return nil, err
	}
	w.acquires.Add(1)
	return wrappedLease{l, w}, nil
}

func (w *wrapper) Acquire(ctx context.Context, name string, o leasing.AcquireOptions) (abstractions.Lease, error) {
	return w.wrap(w.Manager.Acquire(ctx, name, o))
}

func (w *wrapper) TryAcquire(ctx context.Context, name string, o leasing.AcquireOptions) (abstractions.Lease, error) {
	return w.wrap(w.Manager.TryAcquire(ctx, name, o))
}

func (l wrappedLease) Release(ctx context.Context) error {
	l.w.releases.Add(1)
	return l.Lease.Release(ctx)
}

var errDone = errors.New("done")

// Do and each recipe call only methods of the manager and the leases that they receive.
func TestEachCallPassesThroughAWrapper(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, ctx context.Context, m *leasing.Manager){
		"Do": func(t *testing.T, ctx context.Context, m *leasing.Manager) {
			require.NoError(t, m.Do(ctx, "a", func(context.Context, *leasing.Lease) error { return nil }))
			require.NoError(t, m.With(leasing.AcquireOptions{TTL: time.Minute}).TryDo(ctx, "a", func(context.Context, *leasing.Lease) error { return nil }))
		},
		"election": func(t *testing.T, ctx context.Context, m *leasing.Manager) {
			c, err := election.New(m, election.Options{Name: "leader", OnElected: func(context.Context, *leasing.Lease) error { return errDone }})
			require.NoError(t, err)
			require.ErrorIs(t, c.Run(ctx), errDone)
		},
		"multilease": func(t *testing.T, ctx context.Context, m *leasing.Manager) {
			require.NoError(t, multilease.Do(ctx, m, []string{"a", "b"}, func(context.Context, *multilease.Set) error { return nil }))
			require.NoError(t, multilease.TryDo(ctx, m, []string{"a", "b"}, func(context.Context, *multilease.Set) error { return nil }))
		},
		"semaphore": func(t *testing.T, ctx context.Context, m *leasing.Manager) {
			s, err := semaphore.New(m, semaphore.Options{Name: "slots", Permits: 2})
			require.NoError(t, err)
			require.NoError(t, s.Do(ctx, func(context.Context, *semaphore.Permit) error { return nil }))
			permit, err := s.TryAcquire(ctx)
			require.NoError(t, err)
			require.NoError(t, permit.Release(ctx))
		},
		"schedule": func(t *testing.T, ctx context.Context, m *leasing.Manager) {
			ctx, cancel := context.WithTimeout(ctx, 3*time.Hour)
			defer cancel()
			runs := 0
			err := schedule.Run(ctx, m, schedule.Options{Name: "hourly", Every: time.Hour, OnError: func(time.Time, error) {}}, func(context.Context, schedule.Tick) error { runs++; return nil })
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.Positive(t, runs)
		},
		"assign": func(t *testing.T, ctx context.Context, m *leasing.Manager) {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			ran := make(chan struct{}, 3)
			w, err := assign.New(m, assign.Options{
				Name: "shards", Partitions: []string{"1", "2", "3"},
				Work: func(ctx context.Context, _ string, _ *leasing.Lease) error {
					ran <- struct{}{}
					<-ctx.Done()
					return nil
				},
			})
			require.NoError(t, err)
			_ = w.Run(ctx)
			require.NotEmpty(t, ran)
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m, p := leasingtest.NewManager(t, leasing.Options{})
				w := &wrapper{Manager: m.Interface()}
				use(t, t.Context(), leasing.ManagerOf(w))
				require.Positive(t, w.acquires.Load())
				require.NoError(t, m.Close(context.Background()), "all leases were released")
				granted := map[string]bool{}
				for _, call := range p.Calls() {
					if call.Op == leasingtest.Acquire {
						granted[call.ID] = true
					}
				}
				require.EqualValues(t, len(granted), w.acquires.Load(), "an acquire has passed by the wrapper")
				require.EqualValues(t, len(granted), w.releases.Load(), "a release has passed by the wrapper")
			})
		})
	}
}
