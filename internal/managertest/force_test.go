package managertest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// forced runs a test with the operator's manager and the manager of worker 1, which holds leases of the given names.
func forced(t *testing.T, names []string, test func(t *testing.T, operator, worker *leasing.Manager, p *leasingtest.Provider, held map[string]*leasing.Lease)) {
	t.Helper()
	virtual(t, leasing.Options{Owner: "operator"}, func(t *testing.T, operator *leasing.Manager, p *leasingtest.Provider) {
		worker := leasingtest.NewManagerOn(t, p, leasing.Options{Owner: "worker 1"})
		test(t, operator, worker, p, takeAll(t, worker, names...))
	})
}

func takeAll(t *testing.T, m *leasing.Manager, names ...string) map[string]*leasing.Lease {
	t.Helper()
	held := map[string]*leasing.Lease{}
	for _, name := range names {
		l, err := m.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		t.Cleanup(func() { _ = l.Release(context.Background()) })
		held[name] = l
	}
	return held
}

func namesOf(records []leasing.Record) (names []string) {
	for _, r := range records {
		names = append(names, r.Name)
	}
	return names
}

func TestForceReleaseEndsWhatAnOwnerHolds(t *testing.T) {
	forced(t, []string{"jobs/b", "jobs/a", "other"}, func(t *testing.T, operator, worker *leasing.Manager, p *leasingtest.Provider, held map[string]*leasing.Lease) {
		theirs := takeAll(t, leasingtest.NewManagerOn(t, p, leasing.Options{Owner: "worker 2"}), "jobs/c")["jobs/c"]
		var events journal
		defer operator.Subscribe(events.observe)()

		records, err := leasing.HeldBy(t.Context(), operator, "worker 1", "jobs/")
		require.NoError(t, err)
		require.Equal(t, []string{"jobs/a", "jobs/b"}, namesOf(records))
		require.Empty(t, events.kinds(), "a dry run")
		require.Zero(t, p.Count(leasingtest.Break))

		done, err := leasing.ForceRelease(t.Context(), operator, records, leasing.BreakOptions{Actor: "alice", Reason: "node 7 is gone"})
		require.NoError(t, err)
		require.Len(t, done, 2)
		for i, d := range done {
			require.NoError(t, d.Err)
			require.True(t, d.Result.WasHeld)
			require.Equal(t, records[i], d.Record)
		}
		broken := events.ofKind(leasing.EventBroken)
		require.Len(t, broken, 2)
		require.Equal(t, "alice", broken[0].BrokenBy)
		require.Equal(t, "node 7 is gone", broken[1].BreakReason)
		time.Sleep(time.Minute)
		require.ErrorIs(t, held["jobs/a"].Err(), leasing.ErrLost)
		require.ErrorIs(t, held["jobs/b"].Err(), leasing.ErrLost)
		require.NoError(t, held["other"].Err())
		require.NoError(t, theirs.Err())
		records, err = leasing.HeldBy(t.Context(), operator, "worker 1", "")
		require.NoError(t, err)
		require.Equal(t, []string{"other"}, namesOf(records))
	})
}

// ForceRelease does not break the lease of a name that has changed hands since the list was read.
func TestForceReleaseLeavesWhatHasChangedAlone(t *testing.T) {
	forced(t, []string{"a", "b", "c"}, func(t *testing.T, operator, _ *leasing.Manager, p *leasingtest.Provider, held map[string]*leasing.Lease) {
		records, err := leasing.HeldBy(t.Context(), operator, "worker 1", "")
		require.NoError(t, err)
		require.NoError(t, held["a"].Release(t.Context()))
		require.NoError(t, held["b"].Release(t.Context()))
		theirs := takeAll(t, leasingtest.NewManagerOn(t, p, leasing.Options{Owner: "worker 1"}), "b")["b"] // b is now held by another process with the same owner

		done, err := leasing.ForceRelease(t.Context(), operator, records, leasing.BreakOptions{})
		require.ErrorIs(t, err, leasing.ErrStale)
		require.Len(t, done, 3)
		require.NoError(t, done[0].Err)
		require.False(t, done[0].Result.WasHeld, "it had ended")
		require.ErrorIs(t, done[1].Err, leasing.ErrStale)
		require.NoError(t, done[2].Err)
		time.Sleep(time.Minute)
		require.NoError(t, theirs.Err())
		require.ErrorIs(t, held["c"].Err(), leasing.ErrLost)
	})
}

func TestForceReleaseGoesOnAfterAnError(t *testing.T) {
	forced(t, []string{"a", "b"}, func(t *testing.T, operator, _ *leasing.Manager, p *leasingtest.Provider, _ map[string]*leasing.Lease) {
		records, err := leasing.HeldBy(t.Context(), operator, "worker 1", "")
		require.NoError(t, err)
		refused := errors.New("connection refused")
		p.Use(leasingtest.Fail(leasingtest.Break, 1, refused))
		done, err := leasing.ForceRelease(t.Context(), operator, records, leasing.BreakOptions{})
		require.ErrorIs(t, err, refused)
		require.ErrorIs(t, done[0].Err, refused)
		require.NoError(t, done[1].Err)

		again, err := leasing.ForceRelease(t.Context(), operator, records, leasing.BreakOptions{})
		require.NoError(t, err, "calling again does the rest")
		require.True(t, again[0].Result.WasHeld)
	})
}

func TestForceReleaseSaysWhatItHasLeft(t *testing.T) {
	forced(t, []string{"a", "b", "c"}, func(t *testing.T, operator, _ *leasing.Manager, p *leasingtest.Provider, _ map[string]*leasing.Lease) {
		records, err := leasing.HeldBy(t.Context(), operator, "worker 1", "")
		require.NoError(t, err)
		ctx, cancel := context.WithCancelCause(t.Context())
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			defer cancel(errors.New("the console was closed"))
			return apply()
		})
		done, err := leasing.ForceRelease(ctx, operator, records, leasing.BreakOptions{})
		require.ErrorContains(t, err, "2 of 3 leases were left: the console was closed")
		require.Len(t, done, 1)
		require.Equal(t, 1, p.Count(leasingtest.Break))
	})
}

// A record without a token would match any holder of the name.
func TestForceReleaseRefusesWhatItCouldNotTellApart(t *testing.T) {
	forced(t, []string{"a", "b"}, func(t *testing.T, operator, _ *leasing.Manager, p *leasingtest.Provider, held map[string]*leasing.Lease) {
		token := held["a"].Token()
		_, err := leasing.ForceRelease(t.Context(), operator, []leasing.Record{{Name: "a", Token: token}, {Name: "b"}}, leasing.BreakOptions{})
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, "records[1].Token")
		_, err = leasing.ForceRelease(t.Context(), operator, nil, leasing.BreakOptions{IfToken: 7})
		require.ErrorContains(t, err, "BreakOptions.IfToken")
		_, err = leasing.HeldBy(t.Context(), operator, "", "")
		require.ErrorContains(t, err, "owner")
		require.Zero(t, p.Count(leasingtest.Break))
		done, err := leasing.ForceRelease(t.Context(), operator, nil, leasing.BreakOptions{})
		require.NoError(t, err)
		require.Empty(t, done)
	})
}

// fakeList is a provider that lists the given records.
type fakeList struct {
	abstractions.Provider
	records []leasing.Record
	err     error
}

func (l fakeList) List(context.Context, abstractions.ListRequest) (abstractions.ListResult, error) {
	return abstractions.ListResult{Records: l.records}, l.err
}

func TestHeldByReturnsEachNameOnceAndNoUnconfirmedHolder(t *testing.T) {
	p := fakeList{Provider: leasingtest.NewProvider(), records: []leasing.Record{
		{Name: "b", Owner: "me", Held: true, Token: 1}, {Name: "a", Owner: "me", Held: true, Token: 2, Unconfirmed: true},
		{Name: "b", Owner: "me", Held: true, Token: 1}, {Name: "A", Owner: "me", Held: true, Token: 3},
	}}
	m := leasingtest.NewManagerOn(t, p, leasing.Options{})
	records, err := leasing.HeldBy(t.Context(), m, "me", "")
	require.NoError(t, err)
	require.Equal(t, []string{"A", "b"}, namesOf(records))

	p.err = errors.New("page 2 is gone")
	_, err = leasing.HeldBy(t.Context(), leasingtest.NewManagerOn(t, p, leasing.Options{}), "me", "")
	require.ErrorIs(t, err, p.err)
}
