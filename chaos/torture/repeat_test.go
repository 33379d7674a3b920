package torture_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/chaos"
	"github.com/distributedleasing/leasing/chaos/torture"
	"github.com/distributedleasing/leasing/chaos/torture/internal/history"
)

func TestSameSeedAndPlanGiveTheSameHistoryTwice_memory(t *testing.T) {
	t.Parallel()
	for _, name := range chaos.Names() {
		t.Run(name, func(t *testing.T) {
			text := func(seed uint64) string {
				plan, err := chaos.Named(name, seed)
				require.NoError(t, err)
				report := virtual(t, torture.Options{Plan: plan, Seed: seed, For: minute / 5, Repeatable: true}, nil)
				h := recordOf(t, report).History
				for i := range h.Operations { // the order of goroutines in one instant is random
					h.Operations[i].Begun, h.Operations[i].Ended = 0, 0
				}
				// The order is also random when a worker is stopped: its wait ends while its late claim is
				// released, and either event may wake the next waiter.
				running := func(call time.Duration) bool { return call < h.FaultsEnd }
				h.Operations = slices.DeleteFunc(h.Operations, func(o history.Operation) bool { return !running(o.Call) })
				h.Writes = slices.DeleteFunc(h.Writes, func(w history.Write) bool { return !running(w.Call) })
				return fmt.Sprintf("%+v %+v %+v", h.Operations, h.Writes, h.Faults)
			}
			once, again := text(7), text(7)
			same := 0
			for same < min(len(once), len(again)) && once[same] == again[same] {
				same++
			}
			around := func(text string) string { return text[max(0, same-300):min(len(text), same+200)] }
			require.Equal(t, around(once), around(again)) // complete histories would be too long to read
			require.Len(t, again, len(once))
			require.NotEqual(t, once, text(8))
		})
	}
}
