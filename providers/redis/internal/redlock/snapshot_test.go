package redlock

import (
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// withKeyspace returns a ring on the same servers with another prefix, or another database.
func (r *ring) withKeyspace(prefix string, database int) *ring {
	r.t.Helper()
	other := &ring{t: r.t, servers: r.servers, options: r.options, database: database}
	other.options.Naming.Prefix = prefix
	for _, admin := range r.admins {
		o := *admin.Options()
		o.DB = database
		client := redis.NewClient(&o)
		r.t.Cleanup(func() { _ = client.Close() })
		other.admins = append(other.admins, client)
	}
	other.bootstrap()
	return other
}

// restoreSnapshot restarts a server from its latest snapshot.
func (r *ring) restoreSnapshot(server int) {
	r.servers[server].Kill()
	r.servers[server].Restart()
}

// usedBefore returns a process that has acquired and released a name.
func (r *ring) usedBefore() *process {
	r.t.Helper()
	p := r.process()
	require.NoError(r.t, p.ReleaseGrant(p.Take("before", abstractions.NewID(), min(time.Minute, r.options.MaxTTL))))
	p.settle()
	return p
}

// minority acquires a lease on the first two of three servers. After the restart of one
// server, no other claim may get the name.
func (r *ring) minority() {
	r.t.Helper()
	holder := r.process()
	holder.wires[2].cut(lostRequest)
	holder.Take("a", "x", time.Minute)
}

// requireExcluded requires that an acquire for the held name gets no majority.
func (p *process) requireExcluded() {
	p.t.Helper()
	g, err := p.Try("a", "y", time.Minute)
	require.Error(p.t, err, "a second holder: %v", g)
	require.NotErrorIs(p.t, err, abstractions.ErrReleased)
}

// A server is back from an old snapshot. Its first requests are from an application with
// another prefix, or in another database, which loads its scripts.
func TestTrap_T76_RedlockSnapshotIsNoticedForEachPrefixAndDatabase(t *testing.T) {
	t.Parallel()
	for what, other := range map[string]func(r *ring) *ring{
		"prefix":   func(r *ring) *ring { return r.withKeyspace("other", 0) },
		"database": func(r *ring) *ring { return r.withKeyspace(r.options.Naming.Prefix, 1) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRing(t, 3, Options{})
			first := other(r)
			r.snapshot()
			visitor, rival := first.usedBefore(), r.usedBefore()
			r.minority()
			r.restoreSnapshot(1)
			for range 3 {
				_, _ = visitor.Try("a", "x", time.Minute)
				visitor.settle()
			}
			rival.requireExcluded()
			r.process().requireExcluded()
		})
	}
}

// The first check of a server that is back from an old snapshot fails, since the server
// refuses writes. Redis keeps the script nevertheless.
func TestTrap_T76_RedlockSnapshotIsNoticedAfterALookThatFailed(t *testing.T) {
	t.Parallel()
	for setting, values := range map[string][2]string{
		"maxmemory":             {"1", "0"},
		"min-replicas-to-write": {"1", "0"},
	} {
		t.Run(setting, func(t *testing.T) {
			t.Parallel()
			r := newRing(t, 3, Options{})
			r.snapshot()
			rival := r.usedBefore()
			r.minority()
			r.restoreSnapshot(1)
			require.NoError(t, r.admins[1].ConfigSet(t.Context(), setting, values[0]).Err())
			rival.requireExcluded()
			require.NoError(t, r.admins[1].ConfigSet(t.Context(), setting, values[1]).Err())
			rival.requireExcluded()
			r.process().requireExcluded()
		})
	}
}

// The clock of a server was behind after its restart, and is then corrected. The quarantine lasts
// for the full time by the clock of the process that has found the loss, and applies to all
// processes.
func TestTrap_T43_RedlockQuarantineOutlivesAClockThatIsSetForward(t *testing.T) {
	t.Parallel()
	const longest = 2 * time.Second
	r := newRing(t, 3, Options{MaxTTL: longest})
	finder, rival := r.usedBefore(), r.usedBefore()
	holder := r.process()
	holder.wires[2].cut(lostRequest)
	began := time.Now()
	holder.Take("a", "x", longest)
	r.restoreSnapshot(1)
	marker := r.options.Naming.Marker()
	for time.Since(began) < longest {
		for _, p := range []*process{finder, rival, r.process()} {
			g, err := p.Try("a", "y", longest)
			if time.Since(began) < longest {
				require.Error(t, err, "a second holder: %v", g)
			}
			p.settle()
		}
		text, err := r.admins[1].Get(t.Context(), marker).Result()
		require.NoError(t, err)
		_, rest, _ := strings.Cut(text, " ")
		require.NoError(t, r.admins[1].Set(t.Context(), marker, "1 "+rest, 0).Err(), "its end is past by the new time")
	}
	r.awaitVoting(1)
}
