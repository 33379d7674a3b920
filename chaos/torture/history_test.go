package torture_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

// historyOf returns the history of a run under a plan.
func historyOf(t *testing.T, plan string) *history.History {
	t.Helper()
	return recordOf(t, runUnder(t, plan, torture.Options{For: minute, Workers: 12})).History
}

// count returns the number of a layer's operations with that verb and result.
func count(h *history.History, layer history.Layer, verb string, result history.Result) (n int) {
	for _, o := range h.Operations {
		if o.Layer == layer && o.Verb == verb && o.Result == result {
			n++
		}
	}
	return n
}

// An answer that is not recorded can't be checked. So the history must contain each kind of answer as
// often as the managers counted it, including answers to batched renewals.
func TestHistoryHasRequestsAndAnswersOfManagers_memory(t *testing.T) {
	h := historyOf(t, "none")
	renewals := 0
	for _, one := range h.Holds {
		renewals += one.Renewals
	}
	require.Positive(t, renewals)
	for _, layer := range []history.Layer{history.LayerClient, history.LayerBackend} {
		require.Equal(t, renewals, count(h, layer, "renew", history.ResultDone), layer)
		require.Equal(t, len(h.Holds), count(h, layer, "acquire", history.ResultDone), layer)
		require.Positive(t, count(h, layer, "acquire", history.ResultHeld), layer)
		require.Positive(t, count(h, layer, "release", history.ResultDone), layer)
	}
	for _, o := range h.Operations {
		if o.Result == history.ResultHeld {
			require.NotEmpty(t, o.Holder)
		}
	}
}

func TestHistoryTellsTheTwoSidesOfTheFaultsApart_memory(t *testing.T) {
	h := historyOf(t, "lost-replies")
	require.Positive(t, count(h, history.LayerClient, "acquire", history.ResultUnknown))
	require.Zero(t, count(h, history.LayerBackend, "acquire", history.ResultUnknown))
	h = historyOf(t, "steal-lease")
	require.Zero(t, count(h, history.LayerClient, "break", history.ResultDone))
	require.Positive(t, count(h, history.LayerBackend, "break", history.ResultDone))
	require.Positive(t, count(h, history.LayerClient, "renew", history.ResultLost))
}

// In virtual time a holder is notified of a loss exactly at the end of trust.
func TestTrustIsAsTheManagerReports_memory(t *testing.T) {
	lost, late := 0, 0
	h := historyOf(t, "partition")
	for _, one := range h.Holds {
		if one.Renewals == 0 {
			require.LessOrEqual(t, one.Until, one.From+h.TTL*99/100, "trust is counted from before the request")
		}
		if one.Renewals == 0 && one.Reason == leasing.LostExpired && one.Ending == history.EndingLost {
			lost++
			require.Equal(t, one.Until, one.End)
			require.Equal(t, one.Until, one.Noticed)
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
		h := recordOf(t, runUnder(t, plan, torture.Options{For: minute / 6})).History
		for _, f := range h.Faults {
			require.LessOrEqual(t, f.At, h.FaultsEnd+1000*ms, "%s: %s: only of requests under way", plan, f.Kind)
		}
		require.Less(t, h.FaultsEnd, h.Closed)
	}
}
