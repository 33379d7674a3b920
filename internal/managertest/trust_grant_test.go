package managertest_test

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// halfTTL is a backend that grants half of the requested TTL, in single and in batch renewals.
type halfTTL struct{ *leasingtest.Provider }

func (g halfTTL) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	req.TTL /= 2
	return g.Provider.Renew(ctx, req)
}

func (g halfTTL) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	for i := range reqs {
		reqs[i].TTL /= 2
	}
	return g.Provider.RenewBatch(ctx, reqs)
}

// After failed renewals, trust begins when the renewal that succeeded was sent, and lasts as long
// as the granted TTL allows.
func TestTrap_T85_TrustCountsFromTheRenewalThatSucceeded(t *testing.T) {
	const ttl, slow = 30 * time.Second, time.Second
	for _, alone := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			p := leasingtest.NewProvider()
			m := leasingtest.NewManagerOn(t, halfTTL{p}, leasing.Options{TTL: ttl, NoAutoRenew: alone, Tuning: leasing.Tuning{RequestTimeout: time.Hour}})
			leases := make([]*leasing.Lease, 3)
			for i := range leases {
				l, err := m.With(leasing.AcquireOptions{NoAutoRenew: alone}).Acquire(t.Context(), fmt.Sprint(i))
				require.NoError(t, err)
				defer func() { _ = l.Release(context.Background()) }()
				leases[i] = l
			}
			var answered atomic.Int64
			var last atomic.Pointer[time.Time]
			p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
				if call.Op != leasingtest.Renew {
					return apply()
				}
				if answered.Load() < 3*3 {
					answered.Add(1)
					return errNetwork
				}
				if call.Name == "0" {
					now := time.Now()
					last.Store(&now)
				}
				err := apply()
				time.Sleep(slow / 3) // per lease, so a batch of three takes as long as slow
				return err
			})
			if alone {
				for range 3 {
					for _, l := range leases {
						require.Error(t, l.Renew(t.Context()))
					}
				}
				require.NoError(t, leases[0].Renew(t.Context()))
			} else {
				for leases[0].Renewals() == 0 {
					time.Sleep(time.Millisecond)
				}
			}
			left := window(ttl/2) - time.Since(*last.Load())
			require.InDelta(t, left, leases[0].Remaining(), float64(time.Millisecond), "alone %t", alone)
			require.Equal(t, ttl/2, leases[0].TTL())
			p.Clear()
		})
	}
}

// shortLateGrants is a backend that grants a TTL of one second, and answers after two.
type shortLateGrants struct{ *leasingtest.Provider }

func (b shortLateGrants) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	req.TTL = time.Second
	grant, err := b.Provider.Renew(ctx, req)
	time.Sleep(2 * time.Second)
	return grant, err
}

// A grant that came too late has no trust left. It does not shorten the trust that an
// earlier grant left.
func TestRenewalThatCameTooLateChangesNoTrust(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := leasingtest.NewManagerOn(t, shortLateGrants{leasingtest.NewProvider()}, leasing.Options{})
		l, err := m.With(leasing.AcquireOptions{NoAutoRenew: true}).Acquire(t.Context(), name)
		require.NoError(t, err)
		defer func() { _ = l.Release(context.Background()) }()
		require.ErrorIs(t, l.Renew(t.Context()), leasing.ErrUnavailable)
		synctest.Wait()
		require.NoError(t, l.Err())
		require.Zero(t, l.Renewals())
		require.Equal(t, window(30*time.Second)-2*time.Second, l.Remaining())
	})
}

func TestTrap_T86_MapsThatAreHandedOutAreCopies(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		given := map[string]string{"a": "1"}
		l := acquire(t, m, &leasing.AcquireOptions{Metadata: given})
		given["a"] = "changed by the caller"
		l.Metadata()["a"] = "changed by a reader"
		require.Equal(t, map[string]string{"a": "1"}, l.Metadata())

		// A waiter that gives up behind another waiter of this manager gets an error that describes the holder.
		waits := make(chan error, 2)
		for range 2 {
			go func() {
				_, err := m.With(leasing.AcquireOptions{WaitLimit: time.Minute}).Acquire(context.Background(), name)
				waits <- err
			}()
		}
		for range 2 {
			var held *leasing.HeldError
			require.ErrorAs(t, <-waits, &held)
			if held.Holder.Metadata != nil {
				held.Holder.Metadata["a"] = "changed by a waiter"
			}
		}
		require.Equal(t, map[string]string{"a": "1"}, l.Metadata())
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "1"}, record.Metadata)
		record.Metadata["a"] = "changed by an operator"
		record, err = m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, map[string]string{"a": "1"}, record.Metadata)
	})
}

func TestTrap_T35_WorkIsCancelledBeforeTheRelease(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		releases := 0
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Release {
				releases++
				require.ErrorIs(t, context.Cause(l.Context()), leasing.ErrReleased)
			}
			return apply()
		})
		require.NoError(t, l.Release(t.Context()))
		require.Equal(t, 1, releases)
	})
}

// Each lease of a batch gets its own answer: a lost lease ends, and the same
// request renews the others.
func TestTrap_T66_AnswersOfABatchAreInOrder(t *testing.T) {
	virtual(t, leasing.Options{Tuning: leasing.Tuning{Random: func() float64 { return 0.5 }}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		var events journal
		defer m.Subscribe(events.observe)()
		leases := make([]*leasing.Lease, 20)
		for i := range leases {
			l, err := m.Acquire(t.Context(), fmt.Sprint(i))
			require.NoError(t, err)
			defer func() { _ = l.Release(context.Background()) }()
			leases[i] = l
		}
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			switch {
			case call.Op == leasingtest.Renew && call.Name == "7":
				return &leasing.LostError{Reason: leasing.LostTaken}
			case call.Op == leasingtest.Renew && call.Name == "13":
				return errNetwork
			}
			return apply()
		})
		time.Sleep(17500 * time.Millisecond) // all renewals were sent once, at 17.1 s
		for i, l := range leases {
			switch i {
			case 7:
				requireLost(t, l, leasing.LostTaken)
			case 13:
				require.NoError(t, l.Err())
				require.Zero(t, l.Renewals())
			default:
				require.NoError(t, l.Err())
				require.Equal(t, 1, l.Renewals(), l.Name())
			}
		}
		require.Len(t, events.ofKind(leasing.EventRenewed), 18)
		for _, e := range events.ofKind(leasing.EventRenewalFailed) {
			require.Equal(t, "13", e.Name)
		}
	})
}

// A loss needs no goroutine: many losses at a time cost no more goroutines than a single loss.
func TestTrap_T89_ManyLossesNeedNoGoroutines(t *testing.T) {
	var most atomic.Int64
	meters := hooked{hook: func(instrument string) {
		if n := int64(runtime.NumGoroutine()); instrument == "leasing.lost" && n > most.Load() {
			most.Store(n)
		}
	}}
	virtual(t, leasing.Options{MeterProvider: meters, NoAutoRenew: true}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		for i := range 2000 {
			_, err := m.Acquire(t.Context(), fmt.Sprint(i))
			require.NoError(t, err)
		}
		synctest.Wait()
		before := int64(runtime.NumGoroutine())
		time.Sleep(time.Minute)
		require.EqualValues(t, 2000, m.Health(t.Context()).Lost)
		require.Positive(t, most.Load())
		require.Less(t, most.Load()-before, int64(10))
	})
}
