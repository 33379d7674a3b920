package managertest_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

const name = "jobs/report/daily"

// virtual runs a test in virtual time, over a scripted provider.
func virtual(t *testing.T, options leasing.Options, test func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m, p := leasingtest.NewManager(t, options)
		test(t, m, p)
	})
}

func acquire(t *testing.T, m *leasing.Manager, options *leasing.AcquireOptions) *leasing.Lease {
	t.Helper()
	if options != nil {
		m = m.With(*options)
	}
	l, err := m.Acquire(t.Context(), name)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Release(context.Background()) })
	return l
}

// journal is an observer that records the events.
type journal struct {
	mu     sync.Mutex
	events []leasing.Event
}

func (j *journal) observe(e leasing.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

func (j *journal) all() []leasing.Event {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.events)
}

func (j *journal) kinds() (kinds []leasing.EventKind) {
	for _, e := range j.all() {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (j *journal) ofKind(kind leasing.EventKind) (events []leasing.Event) {
	for _, e := range j.all() {
		if e.Kind == kind {
			events = append(events, e)
		}
	}
	return events
}

// awaitEnd returns the time at which a lease's context ends, or fails the test after bound.
func awaitEnd(t *testing.T, l *leasing.Lease, bound time.Duration) time.Time {
	t.Helper()
	select {
	case <-l.Done():
	case <-time.After(bound):
		require.FailNow(t, "the lease's context did not end")
	}
	return time.Now()
}

// requireLost checks that a lease was lost, by its error, its context and its remaining trust.
func requireLost(t *testing.T, l *leasing.Lease, reason leasing.LostReason) {
	t.Helper()
	var lost *leasing.LostError
	require.ErrorAs(t, l.Err(), &lost)
	require.Equal(t, reason, lost.Reason)
	require.ErrorIs(t, l.Err(), leasing.ErrLost)
	require.ErrorIs(t, l.Context().Err(), context.Canceled)
	require.ErrorIs(t, context.Cause(l.Context()), leasing.ErrLost)
	require.Zero(t, l.Remaining())
}

func callIDs(calls []leasingtest.Call, op leasingtest.Op) (callIDs []string) {
	for _, c := range calls {
		if c.Op == op {
			callIDs = append(callIDs, c.ID)
		}
	}
	return callIDs
}

func callTimes(calls []leasingtest.Call, op leasingtest.Op) (times []time.Time) {
	for _, c := range calls {
		if c.Op == op {
			times = append(times, c.At)
		}
	}
	return times
}
