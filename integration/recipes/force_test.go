package recipes_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// operator is the job of a process that breaks leases by force, and dies at one of its requests.
type operator struct {
	At        string
	Records   []leasing.Record
	Immediate bool
	Dies      int  // at which Break, counted from 0
	Applied   bool // the process dies after that Break was applied, and not before it was sent
}

// dyingProvider is a provider whose process dies at a Break, or whose Break fails, as the function do decides.
type dyingProvider struct {
	leasing.Provider
	breaks *int
	do     func(n int, send func()) error
}

func (d dyingProvider) Break(ctx context.Context, req abstractions.BreakRequest) (result abstractions.BreakResult, err error) {
	n := *d.breaks
	*d.breaks++
	failed := d.do(n, func() { result, err = d.Provider.Break(ctx, req) })
	if failed != nil {
		return abstractions.BreakResult{}, failed
	}
	return result, err
}

// operate runs an operator.
func operate(description []byte) error {
	ctx := context.Background()
	var o operator
	if err := json.Unmarshal(description, &o); err != nil {
		return err
	}
	p, err := openURL(ctx, o.At)
	if err != nil {
		return err
	}
	die := func(n int, send func()) error {
		if n != o.Dies || o.Applied {
			send()
		}
		if n == o.Dies {
			self, _ := os.FindProcess(os.Getpid())
			_ = self.Kill()
			select {}
		}
		return nil
	}
	m, err := leasing.NewManager(dyingProvider{p, new(int), die}, leasing.Options{Owner: "ada"})
	if err != nil {
		return err
	}
	_, err = leasing.ForceRelease(ctx, m, o.Records, leasing.BreakOptions{Immediate: o.Immediate, Reason: "node 7 is gone"})
	return fmt.Errorf("nobody killed it: %w", err)
}

var held = []string{"a", "b", "c", "d"}

// runForced runs a test, with held leases, on each database that writes the history together with
// the change.
func runForced(t *testing.T, test func(t *testing.T, at string, p leasing.Provider, leases []*leasing.Lease, records []leasing.Record)) {
	onEach(t, map[string]backend{"sqlite": sqlite, "postgres": postgres}, func(t *testing.T, at, _ string) {
		at = withQuery(at, "history=true")
		p := provider(t, at)
		worker := manager(t, p, leasing.Options{Owner: "w1", TTL: time.Minute})
		var leases []*leasing.Lease
		for _, name := range held {
			l, err := worker.Acquire(t.Context(), name)
			require.NoError(t, err)
			t.Cleanup(func() { _ = l.Release(context.Background()) })
			leases = append(leases, l)
		}
		records, err := leasing.HeldBy(t.Context(), worker, "w1", "")
		require.NoError(t, err)
		require.Len(t, records, len(held))
		test(t, at, p, leases, records)
	})
}

// requireBroken checks that the given names are broken: in the history, once and with actor and reason, and by
// the answer to the holder's renewal. All other leases are still held.
func requireBroken(t *testing.T, p leasing.Provider, leases []*leasing.Lease, broken ...string) {
	t.Helper()
	reader, keeps := abstractions.As[abstractions.HistoryReader](p)
	require.True(t, keeps)
	for _, l := range leases {
		page, err := reader.History(t.Context(), abstractions.HistoryRequest{Name: l.Name()})
		require.NoError(t, err)
		var breaks []string
		for _, e := range page.Entries {
			if e.Kind == abstractions.HistoryBroken {
				require.Equal(t, l.Token(), e.Token)
				breaks = append(breaks, e.Actor+": "+e.Reason)
			}
		}
		if strings.Contains(strings.Join(broken, " "), l.Name()) {
			require.Equal(t, []string{"ada: node 7 is gone"}, breaks, l.Name())
			require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrLost, l.Name())
			continue
		}
		require.Empty(t, breaks, l.Name())
		require.NoError(t, l.Renew(t.Context()), l.Name())
	}
}

// If a process is killed in the middle of a forced release, the history has exactly the leases that it has broken,
// and a second call breaks the rest.
func TestForcedReleaseIsFinishedAfterItsProcessWasKilled(t *testing.T) {
	for _, applied := range []bool{false, true} {
		for _, immediate := range []bool{false, true} {
			t.Run(fmt.Sprintf("applied=%v,immediate=%v", applied, immediate), func(t *testing.T) {
				runForced(t, func(t *testing.T, at string, p leasing.Provider, leases []*leasing.Lease, records []leasing.Record) {
					const dies = 2
					process := start(t, "", "operate", operator{At: at, Records: records, Immediate: immediate, Dies: dies, Applied: applied})
					ctx, cancel := context.WithTimeout(t.Context(), atMost)
					defer cancel()
					require.ErrorContains(t, process.Wait(ctx), "killed")
					broken := held[:dies]
					if applied {
						broken = held[:dies+1]
					}
					requireBroken(t, p, leases, broken...)

					again := manager(t, p, leasing.Options{Owner: "ada"})
					var theirs *leasing.Lease
					if immediate { // another owner has the first lease by now
						var err error
						theirs, err = manager(t, p, leasing.Options{Owner: "w2"}).Acquire(t.Context(), held[0])
						require.NoError(t, err)
						defer theirs.Release(context.Background())
					}
					done, err := leasing.ForceRelease(t.Context(), again, records, leasing.BreakOptions{Immediate: immediate, Reason: "node 7 is gone"})
					require.Len(t, done, len(held))
					if immediate {
						require.ErrorIs(t, done[0].Err, leasing.ErrStale)
						require.NoError(t, theirs.Renew(t.Context()))
						done = done[1:]
					} else {
						require.NoError(t, err)
					}
					for _, d := range done {
						require.NoError(t, d.Err, d.Record.Name)
					}
					requireBroken(t, p, leases, held...)
				})
			})
		}
	}
}

// A connection that fails at one name, before or after its break, does not keep the call from breaking the other names, and
// a second call breaks that name.
func TestForcedReleaseIsFinishedAfterItsConnectionFailed(t *testing.T) {
	for _, applied := range []bool{false, true} {
		t.Run(fmt.Sprintf("applied=%v", applied), func(t *testing.T) {
			runForced(t, func(t *testing.T, _ string, p leasing.Provider, leases []*leasing.Lease, records []leasing.Record) {
				fail := func(n int, send func()) error {
					if n != 1 || applied {
						send()
					}
					if n == 1 {
						return fmt.Errorf("%w: reset by peer", leasing.ErrUnavailable)
					}
					return nil
				}
				m := manager(t, dyingProvider{p, new(int), fail}, leasing.Options{Owner: "ada"})
				options := leasing.BreakOptions{Reason: "node 7 is gone"}
				done, err := leasing.ForceRelease(t.Context(), m, records, options)
				require.ErrorIs(t, err, leasing.ErrUnavailable)
				require.Len(t, done, len(held))
				require.ErrorIs(t, done[1].Err, leasing.ErrUnavailable)
				broken := []string{held[0], held[2], held[3]}
				if applied {
					broken = held
				}
				requireBroken(t, p, leases, broken...)
				_, err = leasing.ForceRelease(t.Context(), m, records, options)
				require.NoError(t, err)
				requireBroken(t, p, leases, held...)
			})
		})
	}
}
