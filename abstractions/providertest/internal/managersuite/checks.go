package managersuite

import (
	"context"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providertest/internal/suite"
)

// Checks has all checks of a manager.
var Checks = slices.Concat(
	managing(trustChecks, releaseChecks, waitingChecks, eventChecks), otherChecks, proxyChecks,
	inRealTime(true, realTrustChecks, realKeepingChecks, realEndingChecks, realWaitingChecks, realReportChecks,
		realLossChecks, realPauseChecks, realTrustedCloseChecks),
	inRealTime(false, realSettingChecks, realErrorChecks, realOperatorChecks, realObserverChecks, realClosingChecks),
)

// computing lists the checks that use the CPU for seconds.
var computing = []string{
	"Manager_Trap_T58_AttemptsLeaveTimeForOthers", "Manager_Trap_T66_BatchReportsEachLease", "Manager_Trap_T72_LoopStarvesNobody",
}

// managing passes a manager with default options to each check.
func managing(all ...[]managerCheck) (checks []suite.Check) {
	for _, c := range slices.Concat(all...) {
		checks = append(checks, suite.Check{Name: c.name, Needs: "Virtual", Long: slices.Contains(computing, c.name), Run: func(e *suite.Env) {
			c.run(e.T.Context(), e, manage(e, e.P, leasing.Options{}))
		}})
	}
	return checks
}

// inRealTime passes a manager without batches, whose leases outlive short stalls, to each check. waits is the field
// Waits of the checks.
func inRealTime(waits bool, all ...[]managerCheck) (checks []suite.Check) {
	for _, c := range slices.Concat(all...) {
		checks = append(checks, suite.Check{Name: "Manager_RealTime_" + c.name, Waits: waits, Long: true, Repeats: true, Run: func(e *suite.Env) {
			ttl := 2 * time.Second
			if e.Advance == nil {
				ttl = max(ttl, e.Short)
			}
			e.Short = suite.Grantable(ttl, e.Caps)
			c.run(e.T.Context(), e, manageWithoutBatches(e, e.P))
		}})
	}
	return checks
}

var otherChecks = []suite.Check{
	// The check works as an application does, in virtual and in real time: of two
	// managers, one waits for the name that the other holds.
	{Name: "Manager_OverThisProvider", Run: func(e *suite.Env) {
		ctx, cancel := context.WithTimeout(e.T.Context(), suite.CallTimeout)
		defer cancel()
		one, two := manage(e, e.P, leasing.Options{TTL: e.Long}), manage(e, e.Peer, leasing.Options{TTL: e.Long})
		name := e.Name()
		ran := make(chan struct{})
		var last int64
		e.NoError(one.Manager.Do(ctx, name, func(ctx context.Context, lease *leasing.Lease) error {
			e.NoError(lease.Renew(ctx))
			last = lease.Token()
			record, err := two.Inspect(ctx, name)
			e.NoError(err)
			e.True(record.Held)
			e.Equal(last, record.Token)
			e.ErrorIs(two.try(ctx, name), abstractions.ErrHeld)
			e.T.Go(func() {
				defer close(ran)
				e.NoError(two.Manager.Do(e.T.Context(), name, func(_ context.Context, next *leasing.Lease) error {
					e.Greater(next.Token(), last, "the token of the next holder")
					e.ErrorIs(lease.Err(), abstractions.ErrReleased, "the work of the holder before has ended")
					return nil
				}))
			})
			return nil
		}))
		<-ran
		lease, err := one.Acquire(ctx, name)
		e.NoError(err)
		_, err = two.Break(ctx, name, leasing.BreakOptions{Immediate: true, IfToken: lease.Token()})
		e.NoError(err)
		e.ErrorIs(lease.Renew(ctx), abstractions.ErrLost)
		e.ErrorIs(lease.Err(), abstractions.ErrLost)
		e.NoError(two.Close(ctx))
		e.NoError(one.Close(ctx))
		e.IsFree(name)
	}},
}
