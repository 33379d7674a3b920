//go:build unix

package etcdlease

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/concurrency"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// The benchmarks compare the provider with etcd's own lock, on a cluster of three members without fsync.
// Each of etcd's locks has its own session, as each claim has its own etcd lease.

func BenchmarkCycle(b *testing.B) {
	c := newCluster(b, 3)
	ctx := b.Context()
	b.Run("leasing", func(b *testing.B) {
		p := c.open()
		for b.Loop() {
			g, err := p.Acquire(ctx, acquireRequest("n", abstractions.NewID(), time.Minute))
			require.NoError(b, err)
			require.NoError(b, p.Release(ctx, releaseRequest(g)))
		}
	})
	b.Run("mutex", func(b *testing.B) {
		m := concurrency.NewMutex(session(b, c.client, 60), "bench")
		for b.Loop() {
			require.NoError(b, m.Lock(ctx))
			require.NoError(b, m.Unlock(ctx))
		}
	})
	b.Run("session-mutex", func(b *testing.B) {
		for b.Loop() {
			s, err := concurrency.NewSession(c.client)
			require.NoError(b, err)
			m := concurrency.NewMutex(s, "bench")
			require.NoError(b, m.Lock(ctx))
			require.NoError(b, m.Unlock(ctx))
			require.NoError(b, s.Close())
		}
	})
}

func session(b *testing.B, c *clientv3.Client, ttl int) *concurrency.Session {
	s, err := concurrency.NewSession(c, concurrency.WithTTL(ttl))
	require.NoError(b, err)
	b.Cleanup(func() { _ = s.Close() })
	return s
}

// BenchmarkHandoff measures the time from a release to the grant of a waiter in another process.
func BenchmarkHandoff(b *testing.B) {
	c := newCluster(b, 3)
	b.Run("leasing", func(b *testing.B) {
		handoff(b, func() func() (release func() error, err error) {
			m, err := leasing.NewManager(c.open(), leasing.Options{TTL: time.Minute})
			require.NoError(b, err)
			b.Cleanup(func() { _ = m.Close(context.WithoutCancel(b.Context())) })
			return func() (func() error, error) {
				l, err := m.Acquire(b.Context(), "n")
				return func() error { return l.Release(b.Context()) }, err
			}
		})
	})
	b.Run("mutex", func(b *testing.B) {
		handoff(b, func() func() (release func() error, err error) {
			m := concurrency.NewMutex(session(b, c.client, 60), "handoff")
			return func() (func() error, error) {
				return func() error { return m.Unlock(b.Context()) }, m.Lock(b.Context())
			}
		})
	})
}

func handoff(b *testing.B, contender func() (acquire func() (release func() error, err error))) {
	both := []func() (func() error, error){contender(), contender()}
	release, err := both[0]()
	require.NoError(b, err)
	for turn := 1; b.Loop(); turn++ {
		b.StopTimer()
		next, failed := make(chan func() error, 1), make(chan error, 1)
		go func() {
			release, err := both[turn%2]()
			next <- release
			failed <- err
		}()
		<-time.After(200 * time.Millisecond) // until the other process waits: etcd is slow to start a watch from an earlier revision
		b.StartTimer()
		require.NoError(b, release())
		release = <-next
		require.NoError(b, <-failed)
	}
	require.NoError(b, release())
}

// BenchmarkHeld holds 10,000 names for a minute, each with its own lease of 30 s, and then stops the renewals. late-s
// is the time by which the last lease outlives its TTL.
func BenchmarkHeld(b *testing.B) {
	const held, ttl = 10_000, 30
	b.Run("leasing", func(b *testing.B) {
		for b.Loop() {
			c := newCluster(b, 3)
			p := c.open()
			m, err := leasing.NewManager(p, leasing.Options{TTL: ttl * time.Second})
			require.NoError(b, err)
			leases := make([]*leasing.Lease, held)
			hold(b, c, "p/c/", ttl, func(i int) error {
				l, err := m.TryAcquire(b.Context(), fmt.Sprint("bench/", i))
				leases[i] = l
				return err
			}, func() {
				renewals := 0
				for _, l := range leases {
					renewals += l.Renewals()
				}
				b.ReportMetric(float64(renewals)/held, "renewals/lease")
				b.ReportMetric(float64(m.Health(b.Context()).Lost), "lost")
				require.NoError(b, p.Close())
			})
			ended, cancel := context.WithCancel(b.Context())
			cancel()
			_ = m.Close(ended)
		}
	})
	b.Run("session-mutex", func(b *testing.B) {
		for b.Loop() {
			c := newCluster(b, 3)
			own, err := clientv3.New(clientv3.Config{Endpoints: c.addrs})
			require.NoError(b, err)
			sessions := make([]*concurrency.Session, held)
			hold(b, c, "bench/", ttl, func(i int) (err error) {
				if sessions[i], err = concurrency.NewSession(own, concurrency.WithTTL(ttl)); err != nil {
					return err
				}
				return concurrency.NewMutex(sessions[i], fmt.Sprint("bench/", i)).Lock(b.Context())
			}, func() {
				lost := 0
				for _, s := range sessions {
					select {
					case <-s.Done():
						lost++
					default:
					}
				}
				b.ReportMetric(float64(lost), "lost")
				require.NoError(b, own.Close())
			})
		}
	})
}

func hold(b *testing.B, c *cluster, prefix string, ttl int, take func(i int) error, leave func()) {
	var next atomic.Int64
	var all sync.WaitGroup
	began := time.Now()
	for range 64 {
		all.Go(func() {
			for i := next.Add(1) - 1; i < 10_000; i = next.Add(1) - 1 {
				if err := take(int(i)); err != nil {
					b.Error(err)
				}
			}
		})
	}
	all.Wait()
	b.ReportMetric(time.Since(began).Seconds(), "take-s")
	own, servers := cpu(b, os.Getpid()), c.cpu()
	<-time.After(time.Minute)
	b.ReportMetric((cpu(b, os.Getpid()) - own).Seconds(), "cpu-s/min")
	b.ReportMetric((c.cpu() - servers).Seconds(), "server-cpu-s/min")
	leave()
	left := time.Now()
	for {
		answer, err := c.client.Get(b.Context(), prefix, clientv3.WithPrefix(), clientv3.WithCountOnly())
		require.NoError(b, err)
		if answer.Count == 0 {
			break
		}
		<-time.After(100 * time.Millisecond)
	}
	b.ReportMetric(time.Since(left).Seconds()-float64(ttl), "late-s")
}

// cpu returns the CPU time of the members.
func (c *cluster) cpu() (all time.Duration) {
	for _, m := range c.members {
		all += cpu(c.t, m.PID())
	}
	return all
}

// cpu returns the CPU time of a process. For other processes it comes from /proc, in hundredths of a second: proc_pid_stat(5).
func cpu(t testing.TB, pid int) time.Duration {
	if pid == os.Getpid() {
		var usage syscall.Rusage
		require.NoError(t, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	require.NoError(t, err)
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks := 0
	for _, field := range fields[11:13] {
		n, err := strconv.Atoi(field)
		require.NoError(t, err)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
