package memsequence_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/sequence"
	"github.com/distributedleasing/leasing/sequence/memsequence"
	"github.com/distributedleasing/leasing/sequence/sequencetest"
	"github.com/stretchr/testify/require"
)

// The run takes 10 seconds of virtual time, and less of real time.
func TestTorture_memory(t *testing.T) {
	for seed := range uint64(2) {
		synctest.Test(t, func(t *testing.T) {
			h := sequencetest.Torture(t, sequencetest.Database[memsequence.Tx](&memory{store: memsequence.New()}), sequencetest.TortureOptions{
				For: 10 * time.Second, Writers: 16, Cleaners: 6, Readers: 3, Lease: 200 * time.Millisecond, Seed: seed,
			}, nil)
			t.Log(h)
			require.Empty(t, h.Check())
			require.Greater(t, h.Late, int64(10))
			require.Positive(t, h.Stale)
		})
	}
}

// The checker finds the violations of broken stores.
func TestTortureCatchesBrokenStores_memory(t *testing.T) {
	for flaw, want := range map[string]string{
		memsequence.CommitsLate:       "outcome: ",
		memsequence.ClaimsTheHighest:  "claim: ",
		memsequence.RemovesFailures:   "hole: ",
		memsequence.FillsBehindSeals:  "reader ",
		memsequence.LetsStaleCleaners: "orphan: ",
		memsequence.ForgetsOrigins:    "orphan: ",
	} {
		t.Run(flaw, func(t *testing.T) {
			var found string
			for seed := uint64(1); seed <= 10 && !strings.Contains(found, want); seed++ {
				found = runTorture(t, flaw, seed)
			}
			require.Contains(t, found, want)
		})
	}
}

// runTorture returns the findings of the checker in a run on a broken store.
func runTorture(t *testing.T, flaw string, seed uint64) (found string) {
	synctest.Test(t, func(t *testing.T) {
		store := &memsequence.Broken{Store: memsequence.New(), Flaw: flaw}
		h := sequencetest.Torture(t, sequencetest.Database[memsequence.Tx](&memory{store: store.Store}), sequencetest.TortureOptions{
			For: 10 * time.Second, Writers: 16, Cleaners: 6, Readers: 3, Lease: 200 * time.Millisecond, Seed: seed,
		}, func() sequence.Store[memsequence.Tx] { return store })
		found = strings.Join(h.Check(), "\n")
	})
	return found
}
