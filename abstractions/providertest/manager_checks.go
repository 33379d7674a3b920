package providertest

import (
	"context"
	"slices"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// managerCheck is one promise of a manager, to which it gets one with default options.
type managerCheck struct {
	name string
	run  func(ctx context.Context, e *Env, m *managed)
}

// ManagerSuite has the checks.
var ManagerSuite = slices.Concat(
	managing(managerTrustChecks, managerReleaseChecks, managerWaitingChecks, managerEventChecks), managerChecks, managerProxyChecks,
	inRealTime(true, managerRealTrustChecks, managerRealKeepingChecks, managerRealEndingChecks, managerRealWaitingChecks, managerRealTellingChecks,
		managerRealLossChecks, managerRealPauseChecks, managerRealTrustedCloseChecks),
	inRealTime(false, managerRealSettingChecks, managerRealErrorChecks, managerRealOperatorChecks, managerRealObserverChecks, managerRealClosingChecks),
)

// computing are the checks that compute for seconds.
var computing = []string{
	"Manager_Trap_T58_AttemptsLeaveTimeForOthers", "Manager_Trap_T66_BatchTellsOfEachLease", "Manager_Trap_T72_LoopStarvesNobody",
}

// managing gives each check a manager with default options.
func managing(all ...[]managerCheck) (checks []Check) {
	for _, c := range slices.Concat(all...) {
		checks = append(checks, Check{Name: c.name, Needs: "Virtual", Long: slices.Contains(computing, c.name), Run: func(e *Env) {
			c.run(e.T.Context(), e, manage(e, e.P, leasing.Options{}))
		}})
	}
	return checks
}

// inRealTime gives each check a manager without batches, whose leases outlive short stalls. waits is that of the checks.
func inRealTime(waits bool, all ...[]managerCheck) (checks []Check) {
	for _, c := range slices.Concat(all...) {
		checks = append(checks, Check{Name: "Manager_RealTime_" + c.name, Waits: waits, Long: true, Repeats: true, Run: func(e *Env) {
			ttl := 2 * time.Second
			if e.Advance == nil {
				ttl = max(ttl, e.Short)
			}
			e.Short = Grantable(ttl, e.Caps)
			c.run(e.T.Context(), e, manageAlone(e, e.P))
		}})
	}
	return checks
}

var managerChecks = []Check{
	// It works as an application does, in virtual and in real time: of two managers,
	// one waits for the name that the other holds.
	{Name: "Manager_OverThisProvider", Run: func(e *Env) {
		ctx, cancel := context.WithTimeout(e.T.Context(), Patience)
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
