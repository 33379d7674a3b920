package chaos_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/chaos"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// A heedless delay outlasts its caller's context, for a single renewal and for a batch. Other
// delays end with the context.
func TestHeedlessDelayOutlastsItsContext(t *testing.T) {
	for _, heedless := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			plan := chaos.Plan{Rules: []chaos.Rule{{
				Fault: chaos.Fault{Kind: chaos.FaultDelay, Delay: 3 * time.Second, After: true, Heedless: heedless}, Match: chaos.Match{Ops: []chaos.Op{chaos.OpRenew}},
			}}}
			p, err := chaos.Wrap(memlease.New(memlease.Options{}), plan, chaos.Options{})
			require.NoError(t, err)
			require.Equal(t, !heedless, p.Capabilities().HeedsContext)
			grant, err := p.Acquire(t.Context(), abstractions.AcquireRequest{Name: "n", ID: "a", Owner: "o", TTL: time.Minute})
			require.NoError(t, err)
			req := abstractions.RenewRequest{Name: "n", ID: "a", Token: grant.Token, TTL: time.Minute, State: grant.State}
			for _, send := range []func(context.Context) error{
				func(ctx context.Context) error { _, err := p.Renew(ctx, req); return err },
				func(ctx context.Context) error {
					_, err := p.RenewBatch(ctx, []abstractions.RenewRequest{req})
					return err
				},
			} {
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				began := time.Now()
				err := send(ctx)
				cancel()
				if heedless {
					require.NoError(t, err, "it has its answer in the end")
					require.Equal(t, 3*time.Second, time.Since(began))
				} else {
					require.ErrorIs(t, err, chaos.ErrInjected)
					require.Equal(t, time.Second, time.Since(began))
				}
			}
			require.NoError(t, p.Close())
		})
	}
	require.Error(t, chaos.Plan{Rules: []chaos.Rule{{Fault: chaos.Fault{Kind: chaos.FaultHang, Heedless: true}}}}.Validate())
}
