package cas

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/hostclock"
)

// later is a release whose records have version 3. Version 2 has "who" in place of "owner". Version 3 has "owner" again, with an
// appended text.
var later = &format{version: 3, steps: []func(map[string]json.RawMessage) error{
	func(fields map[string]json.RawMessage) error {
		if owner, has := fields["owner"]; has {
			fields["who"] = owner
		}
		delete(fields, "owner")
		return nil
	},
	func(fields map[string]json.RawMessage) error {
		var who string
		if text, has := fields["who"]; has {
			if err := json.Unmarshal(text, &who); err != nil {
				return err
			}
			fields["owner"], _ = json.Marshal(who + ", of a later release")
		}
		return nil
	},
}}

// releases returns the Records of two processes on one store: one runs the present release, the other a later
// release.
func releases() (earlier, newer *Records, store *memoryStore) {
	earlier, store = newMemoryStore(time.Second)
	newer = &Records{Store: store, Key: earlier.Key, Expiry: &Expiry{Resolution: time.Second, Skew: 2 * time.Second}, format: later}
	return earlier, newer, store
}

// refusals returns the errors of each verb that writes, and of Inspect, for the lease "mine" of name n.
func refusals(t *testing.T, s *Records, grant abstractions.Grant) map[string]error {
	ctx, all := t.Context(), map[string]error{}
	for _, state := range []any{nil, grant.State} {
		of := grant
		of.State = state
		_, all[fmt.Sprint("renew ", state != nil)] = s.Renew(ctx, renewal(of))
		all[fmt.Sprint("release ", state != nil)] = s.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "mine", State: state})
	}
	_, all["acquire"] = s.Acquire(ctx, acquire("another", time.Minute))
	_, all["acquire again"] = s.Acquire(ctx, acquire("mine", time.Minute))
	_, all["break"] = s.Break(ctx, abstractions.BreakRequest{Name: "n"})
	_, all["break now"] = s.Break(ctx, abstractions.BreakRequest{Name: "n", Immediate: true})
	_, all["inspect"] = s.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
	return all
}

// A later release reads a held record of an earlier one, and its first write brings the record up to date. The earlier release
// then refuses the record, and does not write.
func TestTrap_T253_ARecordIsBroughtUpToDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		earlier, newer, store := releases()
		grant := earlier.mustAcquire(t, "mine", time.Minute)
		old := store.items["k/n"].Data
		require.Contains(t, string(old), `{"v":1,`)

		shown, err := newer.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.True(t, shown.Held)
		require.Equal(t, "owner of mine, of a later release", shown.Owner)
		_, err = newer.Acquire(t.Context(), acquire("another", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrHeld)
		require.Equal(t, old, store.items["k/n"].Data, "nothing was written")

		of := grant
		of.State = nil // its process has been replaced
		renewed, err := newer.Renew(t.Context(), renewal(of))
		require.NoError(t, err)
		require.Equal(t, grant.Token, renewed.Token)
		written := store.items["k/n"]
		require.Contains(t, string(written.Data), `{"v":3,`)
		for verb, err := range refusals(t, earlier, grant) {
			if strings.HasSuffix(verb, "true") { // the conflict may have been with its own write, sent twice
				require.ErrorIs(t, err, abstractions.ErrUnavailable, verb)
			} else {
				require.ErrorIs(t, err, abstractions.ErrNotSetUp, verb)
			}
			require.ErrorContains(t, err, "has version 3, and this release knows versions up to 1", verb)
			require.Equal(t, written, store.items["k/n"], verb)
		}
		again, err := newer.Renew(t.Context(), renewal(renewed))
		require.NoError(t, err, "the later release goes on")
		require.NoError(t, newer.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "mine", State: again.State}))
	})
}

// The write of a later release is conditional on the old bytes: the call starts over after a write by an earlier release.
func TestTrap_T253_AnUpdateReplacesNothingUnseen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		earlier, newer, store := releases()
		grant := earlier.mustAcquire(t, "mine", time.Minute)
		store.before = func() error {
			store.before = nil
			return earlier.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "mine", State: grant.State})
		}
		grant.State = nil
		_, err := newer.Renew(t.Context(), renewal(grant))
		require.ErrorIs(t, err, abstractions.ErrLost)
		require.Contains(t, string(store.items["k/n"].Data), `{"v":1,`, "the release stands")

		_, err = newer.Acquire(t.Context(), acquire("mine", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrReleased, "ended IDs are known across versions")
		next := newer.mustAcquire(t, "next", time.Minute)
		require.Greater(t, next.Token, grant.Token)
	})
}

func TestASweepForgetsRecordsOfEarlierVersionsAndNoLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		earlier, newer, store := releases()
		earlier.Retention, newer.Retention, earlier.FloorKey, newer.FloorKey = time.Hour, time.Hour, "floor", "floor"
		for _, s := range []*Records{newer, earlier} {
			grant := s.mustAcquire(t, "mine", time.Minute)
			require.NoError(t, s.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "mine", State: grant.State}))
			time.Sleep(2 * time.Hour)
			if s == newer {
				forgotten, _, err := earlier.SweepPage(t.Context(), "")
				require.NoError(t, err)
				require.Zero(t, forgotten)
				require.Contains(t, string(store.items["k/n"].Data), `"v":3`)
			}
			forgotten, _, err := newer.SweepPage(t.Context(), "")
			require.NoError(t, err)
			require.Equal(t, 1, forgotten)
			require.Greater(t, earlier.mustAcquire(t, "after", time.Minute).Token, grant.Token)
			delete(store.items, "k/n")
		}
	})
}

func TestARecordThatNoStepCanReadIsRefused(t *testing.T) {
	r := providerkit.Record{Name: "n", Token: 7, ID: "mine", Owner: "o", TTL: time.Minute}
	data, err := currentFormat.encode(&r, deadline{})
	require.NoError(t, err)
	broken := &format{version: 2, steps: []func(map[string]json.RawMessage) error{func(map[string]json.RawMessage) error { return errors.New("no way") }}}
	_, _, err = broken.decode(data, "n")
	require.ErrorIs(t, err, abstractions.ErrNotSetUp)
	require.ErrorContains(t, err, "no way")
	for _, version := range []string{"0", "-1", `"1"`, "1.5", "null"} {
		_, _, err := later.decode([]byte(strings.Replace(string(data), `"v":1`, `"v":`+version, 1)), "n")
		require.ErrorIs(t, err, abstractions.ErrNotSetUp, version)
	}
}

// This release writes exactly the bytes of the records of release 0.1.0, which later releases must read.
func TestGoldenRecords(t *testing.T) {
	at := time.UnixMicro(1789000000123456).UTC()
	free := providerkit.Record{Name: "jobs/daily", Token: 1789000000123456, IdleSince: at, Ended: providerkit.Ended{{ID: "released", At: at.Unix()}, {ID: "broken", Broken: true, At: at.Unix()}}}
	held := providerkit.Record{
		Name: "jobs/daily", Token: 1789000000123456, ID: "0123456789abcdef", Owner: "host-1", TTL: 30 * time.Second,
		AcquiredAt: at, Metadata: map[string]string{"region": "north", "<&>": "\u00fc\U0001F512"}, Ended: free.Ended, IdleSince: at,
	}
	forever, broken := held, held
	forever.TTL, forever.Metadata, forever.Ended, forever.IdleSince = abstractions.Infinite, nil, nil, time.Time{}
	broken.Breaking, broken.BrokenBy, broken.BreakReason = true, "operator", "it hangs"
	golden := map[string]struct {
		record   providerkit.Record
		deadline deadline
	}{
		"free":    {free, deadline{}},
		"held":    {held, deadline{Write: "1f2e3d4c5b6a7988", Lasts: 30_000_000}},
		"ends":    {held, deadline{Write: "1f2e3d4c5b6a7988", Lasts: 30_000_000, Ends: 1789000030123456}},
		"host":    {held, deadline{Host: &hostclock.Deadline{Wall: 1789000030123456, Boot: "0b5e1f6c", SinceBoot: 4200000000}}},
		"forever": {forever, deadline{Write: "1f2e3d4c5b6a7988"}},
		"broken":  {broken, deadline{Write: "1f2e3d4c5b6a7988", Lasts: 5_000_000}},
	}
	text, err := os.ReadFile("testdata/records-0.1.0.txt")
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	var written []string
	for _, name := range slices.Sorted(maps.Keys(golden)) {
		record := golden[name].record
		data, err := currentFormat.encode(&record, golden[name].deadline)
		require.NoError(t, err)
		written = append(written, name+" "+string(data))
	}
	require.Equal(t, lines, written)
	for _, line := range lines {
		name, data, _ := strings.Cut(line, " ")
		record, deadline, err := currentFormat.decode([]byte(data), "jobs/daily")
		require.NoError(t, err, name)
		require.Equal(t, golden[name].record, record, name)
		require.Equal(t, golden[name].deadline, deadline, name)
	}
}
