package etcdlease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/distributedleasing/leasing/abstractions"
)

// Beside etcd's own lock: with a session that lasts, and with one for each cycle, which is
// what a lease of its own is.
func BenchmarkCycle(b *testing.B) {
	o := Options{URL: named(b), Prefix: abstractions.NewID()}
	p, err := Open(b.Context(), o)
	require.NoError(b, err)
	defer p.Close()
	b.Run("acquire-release", func(b *testing.B) {
		for b.Loop() {
			g, err := p.Acquire(b.Context(), wish("n", abstractions.NewID(), time.Minute))
			require.NoError(b, err)
			require.NoError(b, p.Release(b.Context(), giveUp(g)))
		}
	})
	b.Run("renew", func(b *testing.B) {
		g := acquire(b, p, "r", "a", time.Minute)
		for b.Loop() {
			_, err := p.Renew(b.Context(), renewal(g))
			require.NoError(b, err)
		}
	})
	_ = o.complete()
	c, err := clientv3.New(clientv3.Config{Endpoints: o.Endpoints})
	require.NoError(b, err)
	defer c.Close()
	b.Run("mutex", func(b *testing.B) {
		s, err := concurrency.NewSession(c)
		require.NoError(b, err)
		defer s.Close()
		m := concurrency.NewMutex(s, "bench")
		for b.Loop() {
			require.NoError(b, m.Lock(b.Context()))
			require.NoError(b, m.Unlock(b.Context()))
		}
	})
	b.Run("session-mutex", func(b *testing.B) {
		for b.Loop() {
			s, err := concurrency.NewSession(c)
			require.NoError(b, err)
			m := concurrency.NewMutex(s, "bench")
			require.NoError(b, m.Lock(b.Context()))
			require.NoError(b, m.Unlock(b.Context()))
			s.Close()
		}
	})
}
