package managertest_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// requireInvalid checks that an error names the invalid field.
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
	for _, options := range []leasing.AcquireOptions{
		{NoAutoRenew: true, RenewFraction: 0.5},
		{NoAutoRenew: true, RenewCadence: time.Second},
	} {
		_, err := m.With(options).Acquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrInvalid)
		require.ErrorContains(t, err, "NoAutoRenew")
		_, err = manual.With(leasing.AcquireOptions{RenewFraction: options.RenewFraction, RenewCadence: options.RenewCadence}).Acquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrInvalid)
	}
	_, err := leasing.NewManager(p, leasing.Options{NoAutoRenew: true, RenewCadence: time.Second})
	requireInvalid(t, err, "Options.RenewCadence")
	_, err = m.Break(t.Context(), name, leasing.BreakOptions{Immediate: true, Grace: time.Minute})
	requireInvalid(t, err, "BreakOptions.Grace")
	require.Empty(t, p.Calls())

	l, err := m.With(leasing.AcquireOptions{NoAutoRenew: true}).TryAcquire(t.Context(), name)
	require.NoError(t, err, "one lease may do without the renewals that the manager's options describe")
	require.NoError(t, l.Release(t.Context()))
}

func TestTryDo(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		ran := 0
		work := func(_ context.Context, l *leasing.Lease) error { ran++; return l.Err() }
		require.NoError(t, m.With(leasing.AcquireOptions{TTL: time.Minute}).TryDo(t.Context(), name, work))
		l := acquire(t, m, nil)
		began := time.Now()
		require.ErrorIs(t, m.TryDo(t.Context(), name, work), leasing.ErrHeld)
		require.Zero(t, time.Since(began))
		require.Equal(t, 1, ran)
		require.NoError(t, l.Release(t.Context()))
		requireInvalid(t, m.TryDo(t.Context(), name, nil), "fn")
	})
}

// A TTL error names the option that must change.
func TestTTLErrorsNameWhatIsToBlame(t *testing.T) {
	p := leasingtest.NewProvider()
	short, long := ttlBounds{Provider: p, min: time.Millisecond, max: time.Hour}, ttlBounds{Provider: p, min: 15 * time.Second, max: time.Minute}
	for what, test := range map[string]struct {
		provider     leasing.Provider
		options      leasing.Options
		field, wants string
	}{
		"margin":              {short, leasing.Options{TTL: 2 * time.Millisecond}, "Options.TTL", "more than 2.02ms, the margin"},
		"no time to renew":    {short, leasing.Options{TTL: 5 * time.Millisecond}, "Options.TTL", "at least 5.2ms"},
		"fraction not set":    {short, leasing.Options{TTL: 3 * time.Millisecond, RenewFraction: 0.5}, "Options.TTL", "at least 5.2ms"},
		"fraction too large":  {short, leasing.Options{RenewFraction: 0.995}, "Options.RenewFraction", "before 29.698s"},
		"cadence too long":    {short, leasing.Options{RenewCadence: 29700 * time.Millisecond}, "Options.RenewCadence", "before 29.698s"},
		"drift too large":     {short, leasing.Options{Tuning: leasing.Tuning{DriftFactor: 0.45}}, "Options.Tuning.DriftFactor", "under 0.4"},
		"under the minimum":   {long, leasing.Options{TTL: time.Second}, "Options.TTL", "at least 15s, the minimum of bounded; or set Options.RaiseToMinTTL"},
		"over it, by hand":    {long, leasing.Options{TTL: time.Hour, NoAutoRenew: true}, "Options.TTL", "at most 1m0s, the maximum of bounded; longer ones need auto-renewal"},
		"infinite by default": {long, leasing.Options{TTL: leasing.Infinite}, "Options.TTL", "a finite time"},
	} {
		_, err := leasing.NewManager(test.provider, test.options)
		require.Contains(t, requireInvalid(t, err, test.field).Want, test.wants, what)
	}
	leasingtest.NewManagerOn(t, short, leasing.Options{TTL: 5200 * time.Microsecond})
	leasingtest.NewManagerOn(t, short, leasing.Options{TTL: 3 * time.Millisecond, NoAutoRenew: true})
	leasingtest.NewManagerOn(t, long, leasing.Options{TTL: time.Second, RaiseToMinTTL: true})
	m := leasingtest.NewManagerOn(t, short, leasing.Options{})
	_, err := m.With(leasing.AcquireOptions{TTL: 5 * time.Millisecond}).TryAcquire(t.Context(), name)
	requireInvalid(t, err, "AcquireOptions.TTL")
}

// ttlBounds is a provider with bounds for the TTL.
type ttlBounds struct {
	*leasingtest.Provider
	min, max time.Duration
}

func (b ttlBounds) Capabilities() leasing.Capabilities {
	return leasing.Capabilities{Provider: "bounded", MinTTL: b.min, MaxTTL: b.max}
}
