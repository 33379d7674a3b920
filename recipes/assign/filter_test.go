package assign

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
)

// works returns those of the given partitions that have a worker.
func (f *fleet) works(partitions []string) (on []string) {
	f.counts()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range partitions {
		if f.working[p] != "" {
			on = append(on, p)
		}
	}
	return on
}

// T232: a rollout that adds names, worker by worker, leaves no old name without a worker.
func TestTrap_T232_ARolloutThatAddsNames(t *testing.T) {
	for _, added := range []int{1, 5, 16, 200} {
		withFleet(t, func(t *testing.T, f *fleet) {
			old := names("p", 64)
			all := append(names("n", added), old...)
			for i := range 4 {
				f.join(fmt.Sprint("old", i))
			}
			f.awaitEven(2 * ttl)
			f.partitions = all
			for i := range 4 {
				f.join(fmt.Sprint("new", i))
				time.Sleep(2 * ttl)
				require.Equal(t, old, f.works(old), "%d added, %d new workers", added, i+1)
				require.Empty(t, f.works(all[:added]), "an old worker does not know them")
				leaver := f.workers[fmt.Sprint("old", i)]
				delete(f.workers, fmt.Sprint("old", i))
				require.NoError(t, leaver.Leave(t.Context()))
			}
			f.awaitEven(2 * ttl)
			require.Len(t, f.works(all), len(all))
		})
	}
}

// During a rollout that removes names, or is undone, all workers continue to work on the names in
// all lists.
func TestARolloutThatRemovesNames(t *testing.T) {
	withFleet(t, func(t *testing.T, f *fleet) {
		all := f.partitions
		kept := all[5:]
		for i := range 3 {
			f.join(fmt.Sprint("old", i))
		}
		f.awaitEven(2 * ttl)
		f.partitions = kept
		for i := range 3 {
			f.join(fmt.Sprint("new", i))
			time.Sleep(2 * ttl)
			require.Equal(t, kept, f.works(kept), "%d new workers", i+1)
		}
		require.Len(t, f.works(all[:5]), 5, "a worker that knows them keeps them")
		for i := range 3 {
			leaver := f.workers[fmt.Sprint("old", i)]
			delete(f.workers, fmt.Sprint("old", i))
			require.NoError(t, leaver.Leave(t.Context()))
		}
		f.awaitEven(2 * ttl)
		require.Empty(t, f.works(all[:5]))
	})
}

func TestAFilterHasAllNamesOfItsList(t *testing.T) {
	list := names("p", 680)
	n := newFilter(list, nil)
	require.Equal(t, n, filterFromRecord(leasing.Record{Metadata: map[string]string{namesKey: n.encode()}}))
	for _, name := range list {
		require.True(t, n.contains(name))
	}
	wrong := 0
	for _, name := range names("q", 100_000) {
		if n.contains(name) {
			wrong++
		}
	}
	require.Less(t, wrong, 100)
	require.True(t, filter(nil).contains("p"), "a worker that publishes nothing is assumed to have all")

	full := map[string]string{"a": strings.Repeat("x", leasing.MaxMetadataBytes-30)}
	require.Nil(t, newFilter(list, full), "what the application stores comes first")
	full["a"] = full["a"][100:]
	n = newFilter(list, full)
	require.NotNil(t, n)
	require.LessOrEqual(t, len(n.encode())+len(namesKey)+1+len(full["a"]), leasing.MaxMetadataBytes)
}
