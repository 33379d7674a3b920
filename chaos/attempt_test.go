package chaos_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
)

// TestTrap_T277_AttemptsOfARequest checks the attempt number and outcome of each operation.
func TestTrap_T277_AttemptsOfARequest(t *testing.T) {
	var attempts []string
	p, b := wrappedWith(t, chaos.Options{Observer: func(i chaos.Injection) {
		if i.Rule == "seen" || i.Rule == "batch" {
			attempts = append(attempts, fmt.Sprintf("%s %s %d", i.Op, i.Name, i.Attempt))
		}
	}},
		chaos.Rule{Name: "seen", Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 1}},
		chaos.Rule{Name: "batch", Fault: chaos.Fault{Kind: chaos.FaultError}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenewBatch}}, Disabled: true},
		chaos.Rule{Name: "lost", Fault: chaos.Fault{Kind: chaos.FaultReplyLost}, Match: chaos.Match{MaxAttempt: 2}},
		chaos.Rule{Name: "denied", Fault: chaos.Fault{Kind: chaos.FaultError, Failure: chaos.FailureDenied}, Match: chaos.Match{MinAttempt: 3, MaxAttempt: 3}},
	)
	saw := func(want ...string) {
		t.Helper()
		assert.Equal(t, want, attempts)
		attempts = nil
	}
	acquire := func(name, id string) error {
		_, err := p.Acquire(t.Context(), claim(name, id))
		return err
	}
	require.ErrorIs(t, acquire("n", "id"), leasing.ErrUnavailable, "1")
	require.ErrorIs(t, acquire("n", "another"), leasing.ErrUnavailable, "1, since the claim is another")
	require.ErrorIs(t, acquire("n", "id"), leasing.ErrUnavailable, "2")
	require.ErrorIs(t, acquire("n", "id"), leasing.ErrDenied, "3")
	require.NoError(t, acquire("n", "id"), "4")
	require.ErrorIs(t, acquire("n", "id"), leasing.ErrUnavailable, "1 after an answer")
	saw("acquire n 1", "acquire n 1", "acquire n 2", "acquire n 3", "acquire n 4", "acquire n 1")

	require.NoError(t, p.Disable("lost", "denied"))
	require.ErrorIs(t, acquire("n", "another"), leasing.ErrHeld, "2: an answer")
	require.ErrorIs(t, acquire("n", "another"), leasing.ErrHeld, "1")
	saw("acquire n 2", "acquire n 1")

	require.NoError(t, p.Enable("batch"))
	renewals := []abstractions.RenewRequest{b.renewal("n", "id")}
	_, err := p.RenewBatch(t.Context(), renewals)
	require.ErrorIs(t, err, leasing.ErrUnavailable, "1 of the batch, and of the item")
	require.NoError(t, p.Disable("batch"))
	_, err = p.Renew(t.Context(), renewals[0])
	require.NoError(t, err, "2")
	_, err = p.RenewBatch(t.Context(), renewals)
	require.NoError(t, err)
	saw("renew_batch  1", "renew n 2", "renew n 1")

	require.NoError(t, p.Enable("lost"))
	results, err := p.RenewBatch(t.Context(), renewals)
	require.NoError(t, err)
	require.ErrorIs(t, results[0].Err, leasing.ErrUnavailable, "1")
	require.ErrorIs(t, p.Ping(t.Context()), leasing.ErrUnavailable, "1")
	require.NoError(t, p.Disable("lost"))
	_, err = p.RenewBatch(t.Context(), renewals)
	require.NoError(t, err, "2")
	require.NoError(t, p.Ping(t.Context()), "2")
	require.NoError(t, p.Ping(t.Context()), "1")
	saw("renew n 1", "ping  1", "renew n 2", "ping  2", "ping  1")
}

// TestTrap_T277_OnlyOnRetry: a Manager's request that follows a failure is a retry.
func TestTrap_T277_OnlyOnRetry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []chaos.Injection
		p, _ := wrappedWith(t, chaos.Options{Observer: func(i chaos.Injection) { seen = append(seen, i) }},
			chaos.Rule{Name: "first", Fault: chaos.Fault{Kind: chaos.FaultRequestLost}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpAcquire}, MaxAttempt: 1}},
			chaos.Rule{Name: "retry", Fault: chaos.Fault{Kind: chaos.FaultThrottle}, Match: chaos.Match{OnlyOnRetry: true, MaxAttempt: 2}},
		)
		manager, err := leasing.NewManager(p, leasing.Options{})
		require.NoError(t, err)
		lease, err := manager.Acquire(t.Context(), "n")
		require.NoError(t, err, "the third attempt")
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, manager.Close(t.Context()))
		require.Len(t, seen, 2)
		assert.Equal(t, []string{"first", "retry"}, []string{seen[0].Rule, seen[1].Rule})
		assert.Equal(t, 2, seen[1].Attempt)
	})
}

// TestTrap_T278_AfterResetTheSeedRepeats: after Reset all counters begin at 0, so the faults are the same as before.
func TestTrap_T278_AfterResetTheSeedRepeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []chaos.Injection
		p, b := wrappedWith(t, chaos.Options{Observer: func(i chaos.Injection) { seen = append(seen, i) }},
			chaos.Rule{Name: "chance", Fault: chaos.Fault{Kind: chaos.FaultDelay, Jitter: second}, When: chaos.Policy{Probability: .5}},
			chaos.Rule{Name: "stale", Fault: chaos.Fault{Kind: chaos.FaultStaleRead}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpInspect}}},
			chaos.Rule{Name: "retry", Fault: chaos.Fault{Kind: chaos.FaultThrottle}, Match: chaos.Match{OnlyOnRetry: true}, Rate: chaos.Rate{Count: 1, Per: time.Hour}},
			chaos.Rule{Name: "window", Fault: chaos.Fault{Kind: chaos.FaultRequestLost}, When: chaos.Policy{To: second, First: 3}, Budget: chaos.Budget{Total: 2}},
		)
		run := func() (report chaos.Report, faults []chaos.Injection) {
			for range 3 {
				_, _ = p.Acquire(t.Context(), claim("n", "id"))
				_, _ = p.Renew(t.Context(), b.renewal("n", "id"))
				_, _ = p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
			}
			_ = p.Ping(t.Context())
			faults, seen = seen, nil
			for i := range faults {
				faults[i].At = time.Time{}
			}
			return p.Report(), faults
		}
		_, _ = run() // from now on the backend has the lease
		p.Reset()
		report, faults := run()
		require.Empty(t, report.Unused())
		require.NoError(t, p.Disable("chance"))
		require.NoError(t, p.Disable())
		time.Sleep(time.Minute)
		p.Reset()
		again, repeated := run()
		require.Equal(t, report, again)
		require.Equal(t, faults, repeated)
		p.Reset()
		require.Empty(t, p.Report().ByOp)
	})
}

// TestTrap_T278_ResetDuringALateDelivery: after Reset, Settle still waits for a pending delivery.
func TestTrap_T278_ResetDuringALateDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, b := wrapped(t, chaos.Rule{Fault: chaos.Fault{Kind: chaos.FaultDeliveredLate, Delay: second}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpAcquire}}})
		_, _ = p.Acquire(t.Context(), claim("n", "id"))
		p.Reset()
		require.NoError(t, p.Settle(t.Context()))
		require.Len(t, b.times(chaos.OpAcquire), 1)
		require.Equal(t, chaos.LateDeliveries{Applied: 1}, p.Report().Late)
	})
}
