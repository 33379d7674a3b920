package managertest_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestEventsComeInOrderForEachLease(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var all journal
		unsubscribe := m.Subscribe(all.observe)
		for i := range 10 {
			l, err := m.With(leasing.AcquireOptions{TTL: time.Second}).Acquire(t.Context(), fmt.Sprintf("a/b/%d", i))
			require.NoError(t, err)
			require.NoError(t, l.Renew(t.Context()))
			if i%2 == 0 {
				leasingtest.Lose(t, p, l, leasing.LostBroken)
			} else {
				require.NoError(t, l.Release(t.Context()))
			}
		}
		byLease := map[string][]leasing.EventKind{}
		for _, e := range all.all() {
			require.False(t, e.Time.IsZero())
			require.NotZero(t, e.Token)
			require.NotEmpty(t, e.Owner)
			byLease[e.Name] = append(byLease[e.Name], e.Kind)
		}
		require.Len(t, byLease, 10)
		for name, kinds := range byLease {
			last := leasing.EventReleased
			if name[len(name)-1]%2 == 0 {
				last = leasing.EventLost
			}
			require.Equal(t, []leasing.EventKind{leasing.EventAcquired, leasing.EventRenewed, last}, kinds, name)
		}
		unsubscribe()
		before := len(all.all())
		l := acquire(t, m, nil)
		require.NoError(t, l.Release(t.Context()))
		require.Len(t, all.all(), before)
	})
}

func TestTrap_T38_SlowObserverDelaysNoLeaseAndMissesNothing(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var seen journal
		defer m.Subscribe(func(e leasing.Event) {
			time.Sleep(time.Minute)
			seen.observe(e)
		})()
		l := acquire(t, m, &leasing.AcquireOptions{TTL: time.Second})
		time.Sleep(10 * time.Second)
		require.NoError(t, l.Err())
		require.GreaterOrEqual(t, l.Renewals(), 16)
		require.NoError(t, l.Release(t.Context()))
		time.Sleep(time.Hour)
		events := seen.all()
		require.Equal(t, []leasing.EventKind{leasing.EventAcquired, leasing.EventRenewed, leasing.EventReleased}, seen.kinds())
		require.GreaterOrEqual(t, events[1].Coalesced, 16)
		require.Equal(t, events[1].Renewals, events[1].Coalesced)
	})
}

func TestTrap_T38_ObserversMayUseTheLease(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var lease atomic.Pointer[*leasing.Lease]
		released := make(chan error, 1)
		defer m.Subscribe(func(e leasing.Event) {
			if l := lease.Load(); l != nil && e.Kind == leasing.EventRenewed {
				_ = (*l).Remaining()
				_ = m.Health(context.Background())
				released <- (*l).Release(context.Background())
			}
		})()
		l := acquire(t, m, &leasing.AcquireOptions{TTL: time.Second})
		lease.Store(&l)
		require.NoError(t, <-released)
	})
}

func TestTrap_T38_PanickingAndStuckObserversAreIsolated(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		unstick := make(chan struct{})
		m.Subscribe(func(leasing.Event) { panic("observer") })
		m.Subscribe(func(leasing.Event) { <-unstick })
		var good journal
		l := acquire(t, m, &leasing.AcquireOptions{Observer: good.observe})
		time.Sleep(time.Minute)
		require.NoError(t, l.Err())
		health := m.Health(t.Context())
		require.Equal(t, leasing.Degraded, health.Status)
		require.Equal(t, 1, health.StuckObservers)
		require.EqualValues(t, len(good.all()), health.ObserverPanics)
		require.NoError(t, l.Release(t.Context()))
		start := time.Now()
		require.NoError(t, m.Close(t.Context()))
		require.Equal(t, 5*time.Second, time.Since(start), "Close waits for it, but not for ever")
		close(unstick)
	})
}

func TestTrap_T38_HungObserverCostsBoundedMemory(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		unhang := make(chan struct{})
		var seen journal
		defer m.Subscribe(func(e leasing.Event) {
			<-unhang
			seen.observe(e)
		})()
		cycles := func(n int) {
			for range n {
				l, err := m.TryAcquire(t.Context(), name)
				require.NoError(t, err)
				require.NoError(t, l.Release(t.Context()))
			}
		}
		cycles(1)
		synctest.Wait() // the observer has its first events, and hangs
		cycles(5_999)   // only slow so far: nothing is dropped
		time.Sleep(11 * time.Second)
		cycles(10_000)
		close(unhang)
		synctest.Wait()
		dropped := seen.ofKind(leasing.EventDropped)
		require.Len(t, dropped, 1)
		require.Equal(t, 20_000, dropped[0].Coalesced)
		require.Len(t, seen.all(), 12_001)
		cycles(1)
		require.Len(t, seen.all(), 12_003, "and it misses none from then on")
	})
}

func TestCloseDeliversAllEvents(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var seen atomic.Int64
		m.Subscribe(func(leasing.Event) {
			time.Sleep(100 * time.Millisecond)
			seen.Add(1)
		})
		for i := range 10 {
			l, err := m.Acquire(t.Context(), fmt.Sprint(i))
			require.NoError(t, err)
			require.NoError(t, l.Release(t.Context()))
		}
		require.NoError(t, m.Close(t.Context()))
		require.EqualValues(t, 20, seen.Load())
	})
}

func TestLogger(t *testing.T) {
	var out bytes.Buffer
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		logger := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))
		m := leasingtest.NewManagerOn(t, p, leasing.Options{Logger: logger})
		p.Use(leasingtest.Fail(leasingtest.Renew, 1, errNetwork))
		l := acquire(t, m, nil)
		time.Sleep(20 * time.Second)
		leasingtest.Lose(t, p, l, leasing.LostTaken)
		released := acquire(t, m, &leasing.AcquireOptions{TTL: time.Second})
		p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, errNetwork))
		require.Error(t, released.Release(t.Context()))
		_, err := m.Break(t.Context(), name, leasing.BreakOptions{Immediate: true})
		require.NoError(t, err)
		m.Subscribe(func(leasing.Event) { panic("observer") })
		acquire(t, m, &leasing.AcquireOptions{TTL: time.Second})
		time.Sleep(time.Minute)
	})
	for _, want := range []string{
		`msg="leasing: lease renewal_failed" provider=memory name=jobs/report/daily`, "will_retry=true",
		`msg="leasing: lease lost"`, "reason=taken",
		`msg="leasing: lease released"`, "connection reset",
		`msg="leasing: an observer panicked" provider=memory panic=observer`,
	} {
		require.Contains(t, out.String(), want)
	}
	require.NotContains(t, out.String(), "lease acquired")
}
