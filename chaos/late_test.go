package chaos_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
)

// TestLateRequestsAreOnTheirWay: late requests are applied after their callers have gone, and are
// counted.
func TestLateRequestsAreOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: second}, When: chaos.Policy{First: 2, PerName: true}})
		ctx, cancel := context.WithCancel(t.Context())
		metadata := map[string]string{"a": "1"}
		req := claim("n", "id")
		req.Metadata = metadata
		_, err := p.Acquire(ctx, req)
		require.ErrorIs(t, err, chaos.ErrInjected)
		metadata["a"] = "changed"
		cancel()
		require.Error(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "stranger"}))
		assert.Equal(t, 2, p.Report().Late.Pending)
		settling, cancel := context.WithTimeout(t.Context(), second/2)
		defer cancel()
		require.ErrorIs(t, p.Settle(settling), context.DeadlineExceeded)
		require.NoError(t, p.Settle(t.Context()))
		assert.Equal(t, chaos.LateDeliveries{Applied: 2}, p.Report().Late)
		assert.Contains(t, p.Report().String(), "late: 2 applied, 0 refused, 0 dropped, 0 pending")
		record, err := b.Provider.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		assert.Equal(t, abstractions.FingerprintOf("id"), record.Fingerprint, "applied although its caller is gone")
		assert.Equal(t, "1", record.Metadata["a"])

		_, err = p.Acquire(t.Context(), claim("n", "second"))
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "id"}))
	})
}

// TestEverybodySettles: all calls of Settle return when no late delivery is pending.
func TestEverybodySettles(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _ := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: second}})
		for range 2 { // Settle can be used again
			_, err := p.Acquire(t.Context(), claim("n", "id"))
			require.ErrorIs(t, err, chaos.ErrInjected)
			var waiting sync.WaitGroup
			start := time.Now()
			for range 3 {
				waiting.Go(func() { assert.NoError(t, p.Settle(t.Context())) })
				synctest.Wait()
			}
			waiting.Wait()
			assert.Equal(t, second, time.Since(start))
		}
		_, err := p.Acquire(t.Context(), claim("n", "id"))
		require.ErrorIs(t, err, chaos.ErrInjected)
		why := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		require.ErrorIs(t, p.Settle(ctx), why)
	})
}

// TestLateRequestsAreBounded: at most 4096 late requests are pending. Late wake-ups do not count.
func TestLateRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: time.Hour}})
		for range 4096 {
			_, err := p.Acquire(t.Context(), claim("n", "id"))
			require.ErrorIs(t, err, chaos.ErrInjected)
		}
		_, err := p.Acquire(t.Context(), claim("n", "id"))
		require.NoError(t, err)
		assert.Len(t, b.times(chaos.OpAcquire), 1)
		assert.Equal(t, 4096, p.Report().Late.Pending)
		_, err = p.Wait(t.Context(), abstractions.WaitRequest{Name: "n", ID: "waiter"})
		require.NoError(t, err)
		assert.Equal(t, 1, p.Report().ByOp[chaos.OpWait])
	})
}

// TestTrap_T56_ALateAcquireIsRefusedAfterItsRelease: FaultDeliveredLate tests whether a provider
// refuses an acquire that arrives after the release of its claim.
func TestTrap_T56_ALateAcquireIsRefusedAfterItsRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: second}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpAcquire}}})
		_, err := p.Acquire(t.Context(), claim("n", "id"))
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "id"}))
		require.NoError(t, p.Settle(t.Context()))
		assert.Equal(t, chaos.LateDeliveries{Refused: 1}, p.Report().Late)
		record, err := b.Provider.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		assert.False(t, record.Held)
	})
}
