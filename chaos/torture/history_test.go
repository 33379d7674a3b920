package torture_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
)

// history returns the history of a run under a plan.
func history(t *testing.T, plan string) *torture.History {
	t.Helper()
	return under(t, plan, torture.Options{For: minute, Workers: 12}).History()
}

// count returns the number of operations of a layer with a result.
func count(h *torture.History, layer torture.Layer, verb string, result torture.Result) (n int) {
	for _, o := range h.Operations {
		if o.Layer == layer && o.Verb == verb && o.Result == result {
			n++
		}
	}
	return n
}

// An answer that is not recorded can't be checked. So the history must have each kind of answer, also to
// batched renewals, as often as in the managers' counts.
func TestHistoryHasWhatManagersAskAndAreTold_memory(t *testing.T) {
	h := history(t, "none")
	renewals := 0
	for _, one := range h.Holds {
		renewals += one.Renewals
	}
	require.Positive(t, renewals)
	for _, layer := range []torture.Layer{torture.LayerClient, torture.LayerBackend} {
		require.Equal(t, renewals, count(h, layer, "renew", torture.ResultDone), layer)
		require.Equal(t, len(h.Holds), count(h, layer, "acquire", torture.ResultDone), layer)
		require.Positive(t, count(h, layer, "acquire", torture.ResultHeld), layer)
		require.Positive(t, count(h, layer, "release", torture.ResultDone), layer)
	}
	for _, o := range h.Operations {
		if o.Result == torture.ResultHeld {
			require.NotEmpty(t, o.Holder)
		}
	}
}

func TestHistoryTellsTheTwoSidesOfTheFaultsApart_memory(t *testing.T) {
	h := history(t, "lost-replies")
	require.Positive(t, count(h, torture.LayerClient, "acquire", torture.ResultUnknown))
	require.Zero(t, count(h, torture.LayerBackend, "acquire", torture.ResultUnknown))
	h = history(t, "steal-lease")
	require.Zero(t, count(h, torture.LayerClient, "break", torture.ResultDone))
	require.Positive(t, count(h, torture.LayerBackend, "break", torture.ResultDone))
	require.Positive(t, count(h, torture.LayerClient, "renew", torture.ResultLost))
}

// In virtual time a holder learns of a loss exactly at the end of trust.
func TestTrustIsTheManagersOwnWord_memory(t *testing.T) {
	lost, late := 0, 0
	h := history(t, "partition")
	for _, one := range h.Holds {
		if one.Renewals == 0 {
			require.LessOrEqual(t, one.Until, one.From+h.TTL*99/100, "trust is counted from before the request")
		}
		if one.Renewals == 0 && one.Reason == leasing.LostExpired && one.Ending == torture.EndingLost {
			lost++
			require.Equal(t, one.Until, one.End)
			require.Equal(t, one.Until, one.Told)
		}
	}
	require.Positive(t, lost)
	for _, w := range h.Writes {
		if !w.Trusted {
			late++
		}
	}
	require.Positive(t, late, "workers write once more after their loss")
}

func TestFaultsEndWithTheRun_memory(t *testing.T) {
	for _, plan := range chaos.Names() {
		h := under(t, plan, torture.Options{For: minute / 6}).History()
		for _, f := range h.Faults {
			require.LessOrEqual(t, f.At, h.FaultsEnd+1000*ms, "%s: %s: only of requests under way", plan, f.Kind)
		}
		require.Less(t, h.FaultsEnd, h.Closed)
	}
}

// A stopped process learns of its loss when it is resumed.
func TestStoppedProcessIsNotLate(t *testing.T) {
	one := hold("a", 0, 900*ms, 905*ms, torture.EndingLost)
	one.Told = 5100 * ms
	h := torture.History{Holds: []torture.Hold{one}, Stops: []torture.Stop{{From: 100 * ms, To: 5000 * ms}}}
	require.Empty(t, checks(h, options))
	h.Stops[0].Worker = 1
	require.Equal(t, []torture.Check{torture.CheckLoss}, checks(h, options), "it was another's")
	h.Stops[0] = torture.Stop{From: 100 * ms, To: 3000 * ms}
	require.Equal(t, []torture.Check{torture.CheckLoss}, checks(h, options), "late all the same")

	call := op("acquire", "a", 0, 5000*ms, torture.ResultUnknown, 0)
	call.Overrun = 4000 * ms
	h = torture.History{Operations: []torture.Operation{call}, Stops: []torture.Stop{{From: 100 * ms, To: 4900 * ms}}}
	require.Empty(t, checks(h, options))
}
