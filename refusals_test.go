package leasing_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// requireInvalid checks that an error names the field that can't work.
func requireInvalid(t *testing.T, err error, field string) *leasing.InvalidError {
	t.Helper()
	var invalid *leasing.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.ErrorIs(t, err, leasing.ErrInvalid)
	require.Equal(t, field, invalid.Field)
	return invalid
}

// An option that a call would ignore is refused, and nothing is sent.
func TestNoOptionIsAcceptedAndIgnored(t *testing.T) {
	m, p := leasingtest.NewManager(t, leasing.Options{RenewFraction: 0.5})
	manual := leasingtest.NewManagerOn(t, p, leasing.Options{NoAutoRenew: true})
	nothing := func(context.Context, leasing.Lease) error { panic("not reached") }

	_, err := m.TryAcquire(t.Context(), name, &leasing.AcquireOptions{WaitLimit: time.Second})
	requireInvalid(t, err, "AcquireOptions.WaitLimit")
	requireInvalid(t, leasing.TryDo(t.Context(), m, name, &leasing.AcquireOptions{WaitLimit: 1}, nothing), "AcquireOptions.WaitLimit")
	for _, options := range []leasing.AcquireOptions{
		{NoAutoRenew: true, RenewFraction: 0.5},
		{NoAutoRenew: true, RenewCadence: time.Second},
	} {
		_, err = m.Acquire(t.Context(), name, &options)
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, "NoAutoRenew")
		_, err = manual.Acquire(t.Context(), name, &leasing.AcquireOptions{RenewFraction: options.RenewFraction, RenewCadence: options.RenewCadence})
		require.ErrorIs(t, err, leasing.ErrInvalid)
	}
	_, err = leasing.NewManager(p, leasing.Options{NoAutoRenew: true, RenewCadence: time.Second})
	requireInvalid(t, err, "Options.RenewCadence")
	_, err = m.Break(t.Context(), name, &leasing.BreakOptions{Immediate: true, Grace: time.Minute})
	requireInvalid(t, err, "BreakOptions.Grace")
	require.Empty(t, p.Calls())

	l, err := m.TryAcquire(t.Context(), name, &leasing.AcquireOptions{NoAutoRenew: true})
	require.NoError(t, err, "one lease may do without the renewals that the manager's options describe")
	require.NoError(t, l.Release(t.Context()))
}

func TestTryDo(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, p *leasingtest.Provider) {
		ran := 0
		work := func(_ context.Context, l leasing.Lease) error { ran++; return l.Err() }
		require.NoError(t, leasing.TryDo(t.Context(), m, name, &leasing.AcquireOptions{TTL: time.Minute}, work))
		l := acquire(t, m, nil)
		began := time.Now()
		require.ErrorIs(t, leasing.TryDo(t.Context(), m, name, nil, work), leasing.ErrHeld)
		require.Zero(t, time.Since(began))
		require.Equal(t, 1, ran)
		require.NoError(t, l.Release(t.Context()))
		requireInvalid(t, leasing.TryDo(t.Context(), m, name, nil, nil), "fn")
		requireInvalid(t, leasing.TryDo(t.Context(), nil, name, nil, work), "manager")
	})
}
