package memlease_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providertest"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(testing.TB) abstractions.Provider {
	return memlease.New(memlease.Options{History: 100})
}

func TestConformanceInVirtualTime(t *testing.T) {
	providertest.Run(t, providertest.Harness{New: open, Forget: forget, Remembers: 64, Virtual: true})
}

// forget lets the retention pass, and acquires other names until the sweep has forgotten the name.
func forget(t testing.TB, p abstractions.Provider, name string) {
	time.Sleep(providerkit.DefaultRetention)
	sweepUntilForgotten(t, p, name)
}

func sweepUntilForgotten(t testing.TB, p abstractions.Provider, name string) {
	for i := range 100_000 {
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		if record.Token == 0 {
			return
		}
		_, err = p.Acquire(t.Context(), abstractions.AcquireRequest{Name: fmt.Sprint(name, i), ID: abstractions.NewID(), Owner: "test", TTL: time.Second})
		require.NoError(t, err)
	}
	t.Fatalf("%q is not forgotten", name)
}

func TestConformanceInRealTime(t *testing.T) {
	providertest.Run(t, providertest.Harness{New: open})
}

// A manager can hold a lease of the shortest TTL with its default margins.
func TestTheShortestTTLWorksWithTheDefaults(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := open(t)
		manager, err := leasing.NewManager(p, leasing.Options{TTL: p.Capabilities().MinTTL})
		require.NoError(t, err)
		lease, err := manager.Acquire(t.Context(), "n")
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.NoError(t, lease.Err())
		require.NoError(t, lease.Release(t.Context()))
		require.NoError(t, manager.Close(t.Context()))
	})
}

// aheadProvider is a provider whose clock runs ahead of the machine's clock.
type aheadProvider struct {
	*memlease.Provider
	ahead atomic.Int64
}

func TestConformanceOnAClockOfItsOwn(t *testing.T) {
	providertest.Run(t, providertest.Harness{
		New: func(testing.TB) abstractions.Provider {
			c := new(aheadProvider)
			c.Provider = memlease.New(memlease.Options{
				History: 100,
				Now:     func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) },
			})
			return c
		},
		Advance: func(p abstractions.Provider, d time.Duration) { p.(*aheadProvider).ahead.Add(int64(d)) },
		Ahead: func(t testing.TB, p abstractions.Provider, name string) {
			p.(*aheadProvider).ahead.Add(int64(time.Hour))
			defer p.(*aheadProvider).ahead.Add(-int64(time.Hour))
			grant, err := p.Acquire(t.Context(), abstractions.AcquireRequest{Name: name, ID: abstractions.NewID(), Owner: "test", TTL: time.Second})
			require.NoError(t, err)
			require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: name, ID: grant.ID, Token: grant.Token}))
		},
		Forget: func(t testing.TB, p abstractions.Provider, name string) {
			p.(*aheadProvider).ahead.Add(int64(providerkit.DefaultRetention))
			sweepUntilForgotten(t, p, name)
		},
		TTL: time.Hour,
	})
}
