package managertest_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// hungBatches is a provider whose batches hang, even after their context has ended.
type hungBatches struct {
	*leasingtest.Provider
	land chan struct{}
}

func (h hungBatches) RenewBatch(ctx context.Context, reqs []abstractions.RenewRequest) ([]abstractions.RenewResult, error) {
	<-h.land
	return h.Provider.RenewBatch(ctx, reqs)
}

// While batches hang, leases are renewed one by one and are not lost.
func TestTrap_T89_HungBatchesCostNoLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := hungBatches{leasingtest.NewProvider(), make(chan struct{})}
		m := leasingtest.NewManagerOn(t, p, leasing.Options{Tuning: leasing.Tuning{RequestTimeout: time.Second}})
		leases := make([]*leasing.Lease, 40)
		for i := range leases {
			l, err := m.Acquire(t.Context(), fmt.Sprint(i))
			require.NoError(t, err)
			defer func() { _ = l.Release(context.Background()) }()
			leases[i] = l
		}
		time.Sleep(5 * time.Minute)
		for i, l := range leases {
			require.NoError(t, l.Err(), "lease %d", i)
		}
		for i, l := range leases {
			_, err := l.HandOver(t.Context())
			require.ErrorIs(t, err, leasing.ErrUnavailable, "lease %d: a request about it may follow the receiver's", i)
		}
		close(p.land)
		synctest.Wait()
		for _, l := range leases {
			_, err := l.HandOver(t.Context())
			require.NoError(t, err)
		}
	})
}
