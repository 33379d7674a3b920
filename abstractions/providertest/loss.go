package providertest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// LossIsTold has a manager over one provider hold leases, does harm to what is behind it, and lets another provider take their
// names. Each holder has to know of its loss by then, and tokens rise.
func LossIsTold(t *testing.T, behind, next leasing.Provider, ttl time.Duration, harm func()) {
	t.Helper()
	manager, err := leasing.NewManager(behind, leasing.Options{TTL: ttl})
	require.NoError(t, err)
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), ttl)
		defer cancel()
		_ = manager.Close(ctx) // its leases are lost
	}()
	const leases = 32
	lost, held := make([]chan time.Time, leases), make([]leasing.Lease, leases)
	for i := range leases {
		held[i], err = manager.Acquire(t.Context(), fmt.Sprint("loss/", i), nil)
		require.NoError(t, err)
		lost[i] = make(chan time.Time, 1)
		go func() {
			<-held[i].Done()
			lost[i] <- time.Now()
		}()
	}
	<-time.After(ttl) // they are renewed
	require.True(t, slices.ContainsFunc(held, func(lease leasing.Lease) bool { return lease.Err() == nil }))
	harm()
	var all sync.WaitGroup
	for i := range leases {
		all.Go(func() {
			req := abstractions.AcquireRequest{Name: held[i].Name(), ID: abstractions.NewID(), Owner: "next", TTL: time.Minute}
			for t.Context().Err() == nil {
				ctx, cancel := context.WithTimeout(t.Context(), ttl)
				grant, err := next.Acquire(ctx, req)
				cancel()
				if err == nil {
					now := time.Now()
					if told := <-lost[i]; told.After(now) {
						t.Errorf("lease %d: told %v after another had the name", i, told.Sub(now))
					}
					if grant.Token <= held[i].Token() {
						t.Errorf("lease %d: token %d after %d", i, grant.Token, held[i].Token())
					}
					return
				}
				<-time.After(20 * time.Millisecond)
			}
		})
	}
	all.Wait()
}
