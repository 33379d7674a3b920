package managertest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// A policy decides the TTL, within the bounds of the backend.
func TestATTLPolicyChooses(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, _ *leasing.Manager, p *leasingtest.Provider) {
		var asked []leasing.TTLRequest
		var chosen time.Duration
		policy := func(r leasing.TTLRequest) time.Duration { asked = append(asked, r); return chosen }
		for what, test := range map[string]struct {
			provider             leasing.Provider
			options              leasing.Options
			given                leasing.AcquireOptions
			chosen, asked, wants time.Duration
		}{
			"chosen":           {p, leasing.Options{}, leasing.AcquireOptions{}, 10 * time.Second, 30 * time.Second, 10 * time.Second},
			"longer":           {p, leasing.Options{}, leasing.AcquireOptions{TTL: time.Second}, time.Hour, time.Second, time.Hour},
			"nothing to say":   {p, leasing.Options{TTL: time.Minute}, leasing.AcquireOptions{}, 0, time.Minute, time.Minute},
			"negative":         {p, leasing.Options{}, leasing.AcquireOptions{TTL: time.Second}, -1, time.Second, time.Second},
			"too short":        {p, leasing.Options{Tuning: leasing.Tuning{DriftFloor: 20 * time.Millisecond}}, leasing.AcquireOptions{}, 1, 30 * time.Second, 51300 * time.Microsecond},
			"for the cadence":  {p, leasing.Options{RenewCadence: 20 * time.Second}, leasing.AcquireOptions{}, 10 * time.Second, 30 * time.Second, 10 * time.Second},
			"infinite":         {p, leasing.Options{}, leasing.AcquireOptions{}, leasing.Infinite, 30 * time.Second, leasing.Infinite / 2},
			"below minimum":    {ttlBounds{p, 15 * time.Second, time.Minute}, leasing.Options{}, leasing.AcquireOptions{}, time.Second, 30 * time.Second, 15 * time.Second},
			"above maximum":    {ttlBounds{p, 15 * time.Second, time.Minute}, leasing.Options{}, leasing.AcquireOptions{}, time.Hour, 30 * time.Second, time.Minute},
			"maximum, by hand": {ttlBounds{p, 15 * time.Second, time.Minute}, leasing.Options{NoAutoRenew: true}, leasing.AcquireOptions{}, time.Hour, 30 * time.Second, time.Minute},
		} {
			asked, chosen = nil, test.chosen
			test.options.TTLPolicy = policy
			m := leasingtest.NewManagerOn(t, test.provider, test.options)
			require.Empty(t, asked, "a manager asks for no name")
			l, err := m.With(test.given).TryAcquire(t.Context(), name)
			require.NoError(t, err, what)
			require.Equal(t, test.wants, l.TTL(), what)
			require.Equal(t, []leasing.TTLRequest{{Name: name, TTL: test.asked}}, asked, what)
			require.NoError(t, l.Release(t.Context()))
		}
	})
}

// A policy is called once for each acquire, even if the acquire waits, but not for renewals, adopted leases or infinite leases.
func TestATTLPolicyIsAskedOnceForEachLease(t *testing.T) {
	asked := 0
	options := leasing.Options{TTLPolicy: func(leasing.TTLRequest) time.Duration { asked++; return time.Duration(asked) * 10 * time.Second }}
	virtual(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		first := acquire(t, m, nil)
		go func() {
			time.Sleep(time.Hour)
			require.Equal(t, 10*time.Second, first.TTL())
			require.NoError(t, first.Release(t.Context()))
		}()
		second, err := m.Acquire(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, 20*time.Second, second.TTL())
		require.Equal(t, 2, asked)

		handover, err := second.HandOver(t.Context())
		require.NoError(t, err)
		adopted, err := m.Adopt(t.Context(), handover, leasing.AdoptOptions{})
		require.NoError(t, err)
		require.Equal(t, 30*time.Second, adopted.TTL(), "that of Options")
		require.NoError(t, adopted.Release(t.Context()))
		infinite, err := m.With(leasing.AcquireOptions{TTL: leasing.Infinite}).TryAcquire(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, infinite.Release(t.Context()))
		require.Equal(t, 2, asked)
	})
}
