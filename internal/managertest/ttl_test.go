package managertest_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// lastRenewal returns the TTL of the latest renewal that reached the provider.
func lastRenewal(p *leasingtest.Provider) (ttl time.Duration) {
	for _, call := range p.Calls() {
		if call.Op == leasingtest.Renew {
			ttl = call.TTL
		}
	}
	return ttl
}

func TestSetTTLChangesAHeldLease(t *testing.T) {
	virtual(t, leasing.Options{TTL: time.Minute}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		require.NoError(t, l.SetTTL(t.Context(), time.Hour))
		require.Equal(t, time.Hour, l.TTL())
		require.Greater(t, l.Remaining(), 59*time.Minute)
		require.NoError(t, l.Err())
		require.NoError(t, l.Context().Err(), "the work goes on")
		before := p.Count(leasingtest.Renew)
		time.Sleep(30 * time.Minute)
		require.Equal(t, before, p.Count(leasingtest.Renew), "renewals keep their share of the TTL")
		time.Sleep(7 * time.Minute)
		require.Equal(t, before+1, p.Count(leasingtest.Renew))
		require.Equal(t, time.Hour, lastRenewal(p))

		require.NoError(t, l.SetTTL(t.Context(), 10*time.Second))
		require.Less(t, l.Remaining(), 10*time.Second)
		time.Sleep(time.Hour)
		require.NoError(t, l.Err())
		require.Equal(t, 10*time.Second, lastRenewal(p))
		require.NoError(t, l.Release(t.Context()))
		require.ErrorIs(t, l.SetTTL(t.Context(), time.Minute), leasing.ErrReleased)
	})
}

func TestSetTTLRefusesWhatAnAcquireWould(t *testing.T) {
	virtual(t, leasing.Options{TTL: time.Minute}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		for _, ttl := range []time.Duration{0, -1, time.Millisecond, leasing.Infinite} {
			requireInvalid(t, l.SetTTL(t.Context(), ttl), "ttl")
		}
		require.Zero(t, p.Count(leasingtest.Renew))
		require.Equal(t, time.Minute, l.TTL())
		infinite, err := m.With(leasing.AcquireOptions{TTL: leasing.Infinite}).Acquire(t.Context(), "infinite")
		require.NoError(t, err)
		requireInvalid(t, infinite.SetTTL(t.Context(), time.Minute), "ttl")
		require.NoError(t, infinite.Release(t.Context()))
	})
}

// A renewal under way with the old TTL neither confirms nor limits the new TTL.
func TestSetTTLBesideARenewal(t *testing.T) {
	virtual(t, leasing.Options{TTL: time.Minute}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		p.Use(leasingtest.DelayReply(leasingtest.Renew, 1, 5*time.Second))
		go func() { _ = l.Renew(t.Context()) }()
		synctest.Wait()
		require.NoError(t, l.SetTTL(t.Context(), time.Hour))
		require.Equal(t, time.Hour, lastRenewal(p))
		require.Greater(t, l.Remaining(), 59*time.Minute)
	})
}

// Once a shorter TTL has been sent, the name may be free after that TTL, with or without an answer.
func TestTrap_T260_AShorterTTLBoundsTrustFromItsSending(t *testing.T) {
	virtual(t, leasing.Options{TTL: time.Hour}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		p.Use(leasingtest.LoseReply(leasingtest.Renew, leasingtest.Always, errNetwork))
		began := time.Now()
		require.ErrorIs(t, l.SetTTL(t.Context(), 10*time.Second), leasing.ErrUnavailable)
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errNetwork))
		<-l.Done()
		require.ErrorIs(t, l.Err(), leasing.ErrLost)
		require.Less(t, time.Since(began), 10*time.Second, "the backend frees the name then")

		p.Clear()
		hangs := acquire(t, m, nil)
		p.Use(leasingtest.Hang(leasingtest.Renew, leasingtest.Always))
		began = time.Now()
		go func() { _ = hangs.SetTTL(context.Background(), 10*time.Second) }()
		<-hangs.Done()
		require.Less(t, time.Since(began), 10*time.Second)
	})
}

// ignoresContext is a provider whose renewals hang although it declares HeedsContext.
type ignoresContext struct{ *leasingtest.Provider }

func (ignoresContext) Capabilities() leasing.Capabilities {
	c := leasingtest.NewProvider().Capabilities()
	c.HeedsContext = true
	return c
}

func (s ignoresContext) Renew(context.Context, abstractions.RenewRequest) (abstractions.Grant, error) {
	time.Sleep(10 * time.Minute)
	return abstractions.Grant{}, errNetwork
}

func (ignoresContext) As(any) bool { return false }

func TestTrap_T260_NoRequestDelaysTheEndOfTheShorterTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := leasingtest.NewManagerOn(t, ignoresContext{leasingtest.NewProvider()}, leasing.Options{TTL: time.Hour})
		l := acquire(t, m, nil)
		began, changed := time.Now(), make(chan error)
		go func() { changed <- l.SetTTL(context.Background(), 10*time.Second) }()
		<-l.Done()
		require.Less(t, time.Since(began), 10*time.Second)
		require.ErrorIs(t, <-changed, leasing.ErrLost)
	})
}

// lands makes the next renewal fail with a network error, and applies its request later.
func lands(p *leasingtest.Provider, after time.Duration) {
	taken := false
	p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
		if call.Op != leasingtest.Renew || taken {
			return apply()
		}
		taken = true
		time.AfterFunc(after, func() { _ = apply() })
		return errNetwork
	})
}

// A renewal without an answer may land after a later renewal with a longer TTL, and then restarts its own, shorter TTL.
func TestTrap_T260_ALateRenewalOfAShorterTTLIsReckonedWith(t *testing.T) {
	for name, first := range map[string]func(*testing.T, *leasing.Lease, *leasingtest.Provider){
		"shorter, then longer": func(t *testing.T, l *leasing.Lease, p *leasingtest.Provider) {
			lands(p, 20*time.Second)
			require.ErrorIs(t, l.SetTTL(t.Context(), 10*time.Second), leasing.ErrUnavailable)
		},
		"before the first SetTTL": func(t *testing.T, l *leasing.Lease, p *leasingtest.Provider) {
			require.NoError(t, l.Renew(t.Context()))
			lands(p, 20*time.Second)
			require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrUnavailable)
			require.NoError(t, l.Renew(t.Context()))
		},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, leasing.Options{TTL: 10 * time.Second}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
				l := acquire(t, m, nil)
				first(t, l, p)
				require.NoError(t, l.SetTTL(t.Context(), time.Hour))
				require.Equal(t, time.Hour, lastRenewal(p))
				require.LessOrEqual(t, l.Remaining(), 10*time.Second, "the late renewal can come at any moment")
				time.Sleep(19 * time.Second)
				require.NoError(t, l.Err(), "renewals follow the trust")
				// The late renewal lands a second later, and no renewal follows.
				p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errNetwork))
				<-l.Done()
				record, err := m.Inspect(t.Context(), l.Name())
				require.NoError(t, err)
				require.True(t, record.Held, "the holder's trust ends before the backend frees the name")
				require.Equal(t, abstractions.FingerprintOf(l.ID()), record.Fingerprint)
			})
		})
	}
}
