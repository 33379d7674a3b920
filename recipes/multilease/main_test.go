package multilease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 10 * time.Second

// fixture is two managers over one provider, in virtual time.
type fixture struct {
	t           *testing.T
	provider    *leasingtest.Provider
	ours, other *leasing.Manager
}

func withFixture(t *testing.T, test func(t *testing.T, s *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &fixture{t: t, provider: leasingtest.NewProvider()}
		s.ours = leasingtest.NewManagerOn(t, s.provider, leasing.Options{Owner: "ours", TTL: ttl})
		s.other = leasingtest.NewManagerOn(t, s.provider, leasing.Options{Owner: "them", TTL: ttl})
		test(t, s)
	})
}

// acquireOther acquires a name for the other manager.
func (s *fixture) acquireOther(name string) *leasing.Lease {
	s.t.Helper()
	lease, err := s.other.TryAcquire(s.t.Context(), name)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = lease.Release(context.Background()) })
	return lease
}

func (s *fixture) acquire(names ...string) *Set {
	s.t.Helper()
	set, err := Acquire(s.t.Context(), s.ours, names)
	require.NoError(s.t, err)
	s.t.Cleanup(func() { _ = set.Release(context.Background()) })
	return set
}

// acquireAsync acquires and releases the names in the background.
func (s *fixture) acquireAsync(ctx context.Context, options *leasing.AcquireOptions, names ...string) <-chan error {
	result := make(chan error, 1)
	manager := s.ours
	if options != nil {
		manager = manager.With(*options)
	}
	go func() {
		set, err := Acquire(ctx, manager, names)
		if err == nil {
			err = set.Release(context.Background())
		}
		result <- err
	}()
	synctest.Wait()
	return result
}

// holders returns the holder of each name, or "-" for a free name.
func (s *fixture) holders(names ...string) (holders []string) {
	s.t.Helper()
	for _, name := range names {
		record, err := s.other.Inspect(s.t.Context(), name)
		require.NoError(s.t, err)
		if !record.Held {
			record.Owner = "-"
		}
		holders = append(holders, record.Owner)
	}
	return holders
}

// calls returns the names in the calls of an op, in order.
func (s *fixture) calls(op leasingtest.Op) (names []string) {
	for _, call := range s.provider.Calls() {
		if call.Op == op {
			names = append(names, call.Name)
		}
	}
	return names
}

// receive waits for a result, for at most an hour of virtual time.
func receive(t *testing.T, from <-chan error) error {
	t.Helper()
	select {
	case err := <-from:
		return err
	case <-time.After(time.Hour):
		require.FailNow(t, "nothing came")
		return nil
	}
}
