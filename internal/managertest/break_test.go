package managertest_test

import (
	"bytes"
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// Each report of a break has the actor and the reason. The metrics have neither.
func TestBreakSaysWhoAndWhy(t *testing.T) {
	var out bytes.Buffer
	options := leasing.Options{Owner: "operator's console", Logger: slog.New(slog.NewTextHandler(&out, nil))}
	measured(t, options, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider, r *recorder) {
		var events journal
		defer m.Subscribe(events.observe)()
		l := acquire(t, m, nil)
		_, err := m.Break(t.Context(), name, leasing.BreakOptions{Actor: "alice", Reason: "node 7 is gone"})
		require.NoError(t, err)

		broken := events.ofKind(leasing.EventBroken)
		require.Len(t, broken, 1)
		require.Equal(t, "alice", broken[0].BrokenBy)
		require.Equal(t, "node 7 is gone", broken[0].BreakReason)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, "alice", record.BrokenBy)

		awaitEnd(t, l, time.Minute)
		var lost *leasing.LostError
		require.ErrorAs(t, context.Cause(l.Context()), &lost)
		require.Equal(t, leasing.LostBroken, lost.Reason)
		require.Equal(t, "alice", lost.BrokenBy)
		require.Equal(t, "node 7 is gone", lost.BreakReason)
		require.EqualError(t, l.Err(), `lease lost: broken by "alice" (node 7 is gone)`)
		gone := events.ofKind(leasing.EventLost)
		require.Equal(t, "alice", gone[0].BrokenBy)
		require.Equal(t, "node 7 is gone", gone[0].BreakReason)

		time.Sleep(time.Minute)
		next := acquire(t, m, nil)
		_, err = m.Break(t.Context(), name, leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		require.Equal(t, "operator's console", events.ofKind(leasing.EventBroken)[1].BrokenBy, "the manager's owner by default")
		require.ErrorIs(t, next.Renew(t.Context()), leasing.ErrLost)
		_, err = m.Break(t.Context(), name, leasing.BreakOptions{})
		require.NoError(t, err, "nobody has it")
		synctest.Wait()

		require.Contains(t, out.String(), `level=WARN msg="leasing: lease broken" provider=memory name=jobs/report/daily`)
		require.Contains(t, out.String(), `level=WARN msg="leasing: lease lost"`)
		require.Contains(t, out.String(), `broken_by=alice break_reason="node 7 is gone"`)
		require.Equal(t, "alice", r.named("leasing.break")[0].attributes["leasing.break.actor"].AsString())
		require.Equal(t, "node 7 is gone", r.named("leasing.break")[0].attributes["leasing.break.reason"].AsString())
		require.EqualValues(t, 2, r.sum("leasing.broken", "leasing.scope=jobs"))
		r.mu.Lock()
		defer r.mu.Unlock()
		for series := range r.sums {
			require.NotContains(t, series, "alice")
			require.NotContains(t, series, "node 7")
		}
	})
}

// A broken infinite lease lasts for the default grace, which is at most the MaxTTL of the backend.
func TestTrap_T263_TheDefaultGraceFitsTheBackend(t *testing.T) {
	for what, c := range map[string]struct {
		capped     bool
		ttl, grace time.Duration
	}{
		"a minute at least":    {false, 20 * time.Second, time.Minute},
		"twice the TTL":        {false, 45 * time.Second, 90 * time.Second},
		"the longest TTL here": {true, 45 * time.Second, time.Minute},
	} {
		t.Run(what, func(t *testing.T) {
			virtual(t, leasing.Options{}, func(t *testing.T, _ *leasing.Manager, p *leasingtest.Provider) {
				provider := leasing.Provider(p)
				if c.capped {
					provider = minuteTTL{p}
				}
				m := leasingtest.NewManagerOn(t, provider, leasing.Options{TTL: c.ttl})
				l := acquire(t, m, &leasing.AcquireOptions{TTL: leasing.Infinite})
				synctest.Wait()
				require.Equal(t, leasing.Infinite, l.TTL())
				result, err := m.Break(t.Context(), name, leasing.BreakOptions{})
				require.NoError(t, err)
				require.Equal(t, c.grace, result.Remaining)
				awaitEnd(t, l, time.Minute)
			})
		})
	}
}
