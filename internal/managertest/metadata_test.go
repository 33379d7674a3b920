package managertest_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

type labels = map[string]string

// requireMetadata checks the metadata that others see, and the metadata of the lease.
func requireMetadata(t *testing.T, m *leasing.Manager, l *leasing.Lease, shown, confirmed labels) {
	t.Helper()
	record, err := m.Inspect(t.Context(), l.Name())
	require.NoError(t, err)
	require.Len(t, record.Metadata, len(shown))
	require.Len(t, l.Metadata(), len(confirmed))
	for key, value := range shown {
		require.Equal(t, value, record.Metadata[key])
	}
	for key, value := range confirmed {
		require.Equal(t, value, l.Metadata()[key])
	}
}

func TestSetMetadata(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{Metadata: labels{"shard": "1"}})
		time.Sleep(10 * time.Second)
		given := labels{"shard": "2", "state": "draining"}
		require.NoError(t, l.SetMetadata(t.Context(), given))
		given["shard"] = "changed by the caller"
		l.Metadata()["shard"] = "changed by another"
		requireMetadata(t, m, l, labels{"shard": "2", "state": "draining"}, labels{"shard": "2", "state": "draining"})
		require.Equal(t, 1, l.Renewals(), "it is a renewal")
		require.Greater(t, l.Remaining(), 29*time.Second)

		time.Sleep(time.Minute)
		requireMetadata(t, m, l, labels{"shard": "2", "state": "draining"}, labels{"shard": "2", "state": "draining"})
		require.NoError(t, l.SetMetadata(t.Context(), nil))
		requireMetadata(t, m, l, nil, nil)

		err := l.SetMetadata(t.Context(), labels{"\n": ""})
		require.ErrorIs(t, err, leasing.ErrInvalid)
		requireMetadata(t, m, l, nil, nil)
		require.NoError(t, l.Release(t.Context()))
		require.ErrorIs(t, l.SetMetadata(t.Context(), given), leasing.ErrReleased)
		l = acquire(t, m, nil)
		leasingtest.Lose(t, p, l, leasing.LostTaken)
		require.ErrorIs(t, l.SetMetadata(t.Context(), given), leasing.ErrLost)
	})
}

// The metadata at the backend is unknown after a lost reply. The next renewal
// settles the metadata.
func TestSetMetadataWhoseReplyIsLostIsSettledByTheNextRenewal(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{Metadata: labels{"v": "1"}})
		p.Use(leasingtest.LoseReply(leasingtest.Renew, 1, errNetwork))
		require.ErrorIs(t, l.SetMetadata(t.Context(), labels{"v": "2"}), leasing.ErrUnavailable)
		requireMetadata(t, m, l, labels{"v": "2"}, labels{"v": "1"})
		time.Sleep(time.Second)
		requireMetadata(t, m, l, labels{"v": "2"}, labels{"v": "2"})

		p.Use(leasingtest.Fail(leasingtest.Renew, 1, errNetwork)) // this renewal does not reach the backend
		require.Error(t, l.SetMetadata(t.Context(), labels{"v": "3"}))
		requireMetadata(t, m, l, labels{"v": "2"}, labels{"v": "2"})
		time.Sleep(time.Second)
		requireMetadata(t, m, l, labels{"v": "3"}, labels{"v": "3"})
	})
}

// A request that was delayed, and lands after a later request, does not determine the metadata.
func TestSetMetadataThatLandsLateIsUndone(t *testing.T) {
	virtual(t, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: time.Second}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		var late atomic.Int32
		p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op != leasingtest.Renew || late.Add(1) > 1 {
				return apply()
			}
			time.AfterFunc(20*time.Second, func() { _ = apply() })
			<-ctx.Done()
			return ctx.Err()
		})
		require.Error(t, l.SetMetadata(t.Context(), labels{"v": "late"}))
		require.NoError(t, l.SetMetadata(t.Context(), labels{"v": "last"}))
		requireMetadata(t, m, l, labels{"v": "last"}, labels{"v": "last"})
		time.Sleep(20 * time.Second)
		record, err := m.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, "late", record.Metadata["v"], "the test delays nothing")
		time.Sleep(20 * time.Second)
		requireMetadata(t, m, l, labels{"v": "last"}, labels{"v": "last"})
	})
}

func TestSetMetadataBehindARenewalThatIsUnderWay(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		for _, outcome := range []error{nil, errNetwork} {
			l := acquire(t, m, nil)
			p.Use(leasingtest.Delay(leasingtest.Renew, 1, time.Second))
			p.Use(func(ctx context.Context, call leasingtest.Call, apply func() error) error {
				if call.Op == leasingtest.Renew && call.N%2 == 1 {
					return errorsOr(apply(), outcome)
				}
				return apply()
			})
			before := p.Count(leasingtest.Renew)
			go func() { _ = l.Renew(context.Background()) }()
			synctest.Wait()
			require.NoError(t, l.SetMetadata(t.Context(), labels{"v": "1"}), "its own renewal follows")
			require.Equal(t, before+2, p.Count(leasingtest.Renew))
			requireMetadata(t, m, l, labels{"v": "1"}, labels{"v": "1"})
			require.NoError(t, l.Release(t.Context()))
			p.Clear()
		}
	})
}

func errorsOr(err, other error) error {
	if err != nil {
		return err
	}
	return other
}

// Concurrent calls all report success, and the lease has the metadata of the last call.
func TestSetMetadataConcurrently(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		p.Use(leasingtest.Delay(leasingtest.Renew, leasingtest.Always, time.Second))
		done := make(chan error)
		for i := range 5 {
			go func() { done <- l.SetMetadata(t.Context(), labels{"v": fmt.Sprint(i)}) }()
			synctest.Wait() // the renewal of the first call is under way
		}
		for range 5 {
			require.NoError(t, <-done)
		}
		require.Equal(t, 2, p.Count(leasingtest.Renew))
		requireMetadata(t, m, l, labels{"v": "4"}, labels{"v": "4"})
	})
}

// Metadata whose own renewal failed is sent with the next batch.
func TestSetMetadataInABatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := leasingtest.NewProvider()
		batches := &metadataBatches{Provider: p}
		m := leasingtest.NewManagerOn(t, batches, leasing.Options{Tuning: leasing.Tuning{Random: func() float64 { return 0 }}})
		var leases []*leasing.Lease
		for i := range 10 {
			l, err := m.Acquire(t.Context(), fmt.Sprint("a/b/", i))
			require.NoError(t, err)
			defer func() { require.NoError(t, l.Release(context.Background())) }()
			leases = append(leases, l)
		}
		remove := p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, errNetwork))
		for i, l := range leases {
			require.Error(t, l.SetMetadata(t.Context(), labels{"i": fmt.Sprint(i)}))
		}
		remove()
		batches.carried.Store(0)
		time.Sleep(30 * time.Second)
		for i, l := range leases {
			requireMetadata(t, m, l, labels{"i": fmt.Sprint(i)}, labels{"i": fmt.Sprint(i)})
		}
		require.Positive(t, batches.carried.Load())
	})
}

// metadataBatches counts the renewals in batches that carry metadata.
type metadataBatches struct {
	*leasingtest.Provider
	carried atomic.Int32
}

func (b *metadataBatches) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	for _, req := range reqs {
		if req.Metadata != nil {
			b.carried.Add(1)
		}
	}
	return b.Provider.RenewBatch(ctx, reqs)
}

// metadataRefuser refuses all metadata, like a backend with a smaller limit.
type metadataRefuser struct {
	*leasingtest.Provider
	metadata atomic.Int32 // number of renewals that carried metadata
}

func (c *metadataRefuser) As(any) bool { return false }

func (c *metadataRefuser) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if req.Metadata != nil {
		c.metadata.Add(1)
		return abstractions.Grant{}, &leasing.InvalidError{Field: "Metadata", Value: "2 kB", Want: "less"}
	}
	return c.Provider.Renew(ctx, req)
}

func TestSetMetadataThatIsRefusedCostsNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &metadataRefuser{Provider: leasingtest.NewProvider()}
		m := leasingtest.NewManagerOn(t, p, leasing.Options{})
		l := acquire(t, m, &leasing.AcquireOptions{Metadata: labels{"v": "1"}})
		requireInvalid(t, l.SetMetadata(t.Context(), labels{"v": "2"}), "Metadata")
		time.Sleep(time.Hour)
		require.NoError(t, l.Err())
		require.EqualValues(t, 1, p.metadata.Load())
		requireMetadata(t, m, l, labels{"v": "1"}, labels{"v": "1"})
	})
}

func TestSetMetadataGoesOnWhenItsContextEnds(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, &leasing.AcquireOptions{NoAutoRenew: true})
		p.Use(leasingtest.Delay(leasingtest.Renew, 1, 2*time.Second))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, l.SetMetadata(ctx, labels{"v": "1"}), context.DeadlineExceeded)
		requireMetadata(t, m, l, nil, nil)
		time.Sleep(time.Second + 1)
		requireMetadata(t, m, l, labels{"v": "1"}, labels{"v": "1"})
	})
}

// hangFirst makes the first request of a kind hang until land is closed, even if the request's context has ended.
func hangFirst(p *leasingtest.Provider, op leasingtest.Op) (land chan struct{}) {
	land = make(chan struct{})
	var hung atomic.Bool
	p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
		if call.Op == op && hung.CompareAndSwap(false, true) {
			<-land
		}
		return apply()
	})
	return land
}

// A change of metadata that lands after many TTLs is undone.
func TestSetMetadataThatLandsAfterManyTTLsIsUndone(t *testing.T) {
	virtual(t, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: time.Second}}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		land := hangFirst(p, leasingtest.Renew)
		require.Error(t, l.SetMetadata(t.Context(), labels{"step": "1"}))
		require.NoError(t, l.SetMetadata(t.Context(), labels{"step": "2"}))
		time.Sleep(5 * time.Minute)
		close(land)
		time.Sleep(time.Minute)
		requireMetadata(t, m, l, labels{"step": "2"}, labels{"step": "2"})
	})
}
