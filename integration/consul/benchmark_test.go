// Package consul_test compares leases on Consul with the lock of Consul's own client library.
package consul_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/consul/api"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	consullease "github.com/distributedleasing/leasing/providers/consul"
)

// server opens a provider and a client of one agent, and returns a prefix for keys.
func server(b *testing.B) (*consullease.Provider, *api.Client, string) {
	text := servertest.Require(b, "LEASING_TEST_CONSUL")
	p, err := consullease.OpenURL(b.Context(), text)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, p.Close()) })
	u, err := providerkit.ParseURL(text, "consul")
	require.NoError(b, err)
	client, err := api.NewClient(&api.Config{Address: u.Host})
	require.NoError(b, err)
	return p, client, "bench/" + abstractions.NewID() + "/"
}

func manager(b *testing.B, p leasing.Provider) *leasing.Manager {
	m, err := leasing.NewManager(p, leasing.Options{TTL: time.Minute})
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, m.Close(context.Background())) })
	return m
}

// lock returns a lock of Consul's client library, which creates its own session unless session is
// set.
func lock(b *testing.B, client *api.Client, key, session string) *api.Lock {
	l, err := client.LockOpts(&api.LockOptions{Key: key, Session: session, SessionTTL: "60s"})
	require.NoError(b, err)
	return l
}

func session(b *testing.B, client *api.Client) string {
	id, _, err := client.Session().Create(&api.SessionEntry{TTL: "60s"}, nil)
	require.NoError(b, err)
	b.Cleanup(func() { _, _ = client.Session().Destroy(id, nil) }) // fails if the agent accepts no more connections
	return id
}

// BenchmarkCycle acquires and releases a free name. A lock with a session of its own is the
// counterpart of a lease.
func BenchmarkCycle(b *testing.B) {
	p, client, prefix := server(b)
	b.Run("lease", func(b *testing.B) {
		m := manager(b, p)
		for b.Loop() {
			lease, err := m.TryAcquire(b.Context(), prefix+"lease")
			require.NoError(b, err)
			require.NoError(b, lease.Release(b.Context()))
		}
	})
	for name, session := range map[string]string{"lock": "", "lock-shared-session": session(b, client)} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				l := lock(b, client, prefix+name, session)
				_, err := l.Lock(nil)
				require.NoError(b, err)
				require.NoError(b, l.Unlock())
			}
		})
	}
}

// BenchmarkHandOff measures the time from a release until the waiter has the name.
func BenchmarkHandOff(b *testing.B) {
	p, client, prefix := server(b)
	between := func(b *testing.B, sides [2]func() (release func())) {
		var handed time.Duration
		release := sides[0]()
		for i := 0; b.Loop(); i++ {
			has := make(chan func())
			go func() { has <- sides[(i+1)%2]() }()
			<-time.After(300 * time.Millisecond) // until the other side waits
			begun := time.Now()
			release()
			release = <-has
			handed += time.Since(begun)
		}
		release()
		b.ReportMetric(float64(handed.Milliseconds())/float64(b.N), "ms/hand-off")
	}
	b.Run("lease", func(b *testing.B) {
		of := func(m *leasing.Manager) func() func() {
			return func() func() {
				lease, err := m.Acquire(b.Context(), prefix+"lease")
				require.NoError(b, err)
				return func() { require.NoError(b, lease.Release(b.Context())) }
			}
		}
		between(b, [2]func() func(){of(manager(b, p)), of(manager(b, p))})
	})
	b.Run("lock", func(b *testing.B) {
		of := func(session string) func() func() {
			return func() func() {
				l := lock(b, client, prefix+"lock", session)
				_, err := l.Lock(nil)
				require.NoError(b, err)
				return func() { require.NoError(b, l.Unlock()) }
			}
		}
		between(b, [2]func() func(){of(session(b, client)), of(session(b, client))})
	})
}

// BenchmarkHeld holds 10,000 names for a minute, unless a hundred acquires fail, and reports the
// numbers of held and lost names, the time to get all names, and the CPU time of this process.
func BenchmarkHeld(b *testing.B) {
	log.SetOutput(io.Discard) // the client logs that an agent refuses connections
	const names, clients, during = 10_000, 32, time.Minute
	p, client, prefix := server(b)
	hold := func(b *testing.B, acquire func(name string) (lost <-chan struct{}, release func(), err error)) {
		for b.Loop() {
			var next, failed, lost atomic.Int64
			var all sync.WaitGroup
			var mu sync.Mutex
			var first error
			held, releases := map[string]<-chan struct{}{}, map[string]func(){}
			before, begun := cpu(), time.Now()
			for range clients {
				all.Go(func() {
					for i := next.Add(1); i <= names && failed.Load() < 100; i = next.Add(1) {
						name := fmt.Sprint(prefix, i)
						gone, release, err := acquire(name)
						mu.Lock()
						if err != nil {
							failed.Add(1)
							first = cmp.Or(first, err)
						} else {
							held[name], releases[name] = gone, release
						}
						mu.Unlock()
					}
				})
			}
			all.Wait()
			b.ReportMetric(time.Since(begun).Seconds(), "s/acquire")
			<-time.After(during)
			for _, gone := range held {
				select {
				case <-gone:
					lost.Add(1)
				default:
				}
			}
			b.ReportMetric(float64(len(held)), "held")
			b.ReportMetric(float64(lost.Load()), "lost")
			b.ReportMetric((cpu() - before).Seconds(), "cpu-s")
			if first != nil {
				b.Log(first)
			}
			for _, release := range releases {
				release()
			}
		}
	}
	b.Run("lease", func(b *testing.B) {
		m, err := leasing.NewManager(p, leasing.Options{TTL: time.Minute})
		require.NoError(b, err)
		hold(b, func(name string) (<-chan struct{}, func(), error) {
			lease, err := m.TryAcquire(b.Context(), name)
			if err != nil {
				return nil, nil, err
			}
			return lease.Done(), func() {}, nil
		})
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = m.Close(ended) // the leases run out
	})
	b.Run("lock", func(b *testing.B) {
		shared := session(b, client)
		hold(b, func(name string) (<-chan struct{}, func(), error) {
			l := lock(b, client, name, shared)
			stop := make(chan struct{})
			timer := time.AfterFunc(5*time.Second, func() { close(stop) })
			defer timer.Stop()
			lost, err := l.Lock(stop)
			if err == nil && lost == nil {
				err = errors.New("no lock within 5 s")
			}
			return lost, func() { _ = l.Unlock() }, err
		})
	})
}

func cpu() time.Duration {
	var usage syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &usage)
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
