package cosmoslease

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// T45: if several regions accept writes, an ETag does not exclude other holders. The provider
// detects several write regions without an extra request, before any write, even if the account
// changes later.
func TestTrap_T45_SeveralWriteRegionsAreRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.account.WriteRegions(true)
		b.account.Record()
		p := b.process(func(o *Options) { o.Create, o.Container = true, "made" })
		_, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		require.ErrorContains(t, err, "AllowMultipleWriteRegions")
		require.Equal(t, []cosmostest.Verb{cosmostest.ReadAccount, cosmostest.ReadContainer}, b.verbs(), "nothing was created")

		allowed := b.process(func(o *Options) { o.AllowMultipleWriteRegions = true })
		_, err = allowed.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
		require.NoError(t, err)

		b.account.WriteRegions(false)
		b.acquire("m", "a")
		b.account.WriteRegions(true)
		time.Sleep(6 * time.Minute) // azcosmos reads the account every five minutes
		b.inspect("m")
		synctest.Wait()
		_, err = b.Inspect(t.Context(), abstractions.InspectRequest{Name: "m"})
		require.ErrorIs(t, err, abstractions.ErrNotSetUp)

		b.account.WriteRegions(false) // the operator corrects the account
		_, err = b.Inspect(t.Context(), abstractions.InspectRequest{Name: "m"})
		require.NoError(t, err)
	})
}

// azcosmos does not retry a failed read of the account for five minutes. A provider
// retries it in the next call.
func TestAnAccountThatWasUnreachableIsAskedAgain(t *testing.T) {
	for _, fault := range []cosmostest.Fault{{Status: 503}, {Drop: true}, {Delay: time.Hour}, {Status: 403}} {
		inBubble(t, func(t *testing.T, b *bed) {
			b.account.Before(faultOn(cosmostest.ReadAccount, fault))
			for range 2 {
				_, err := b.try("n", "a")
				require.Error(t, err)
				if fault.Status != 403 {
					requireUnknown(t, err)
				}
			}
			b.account.Before(nil)
			b.acquire("n", "a")
		})
	}
}

// Calls that wait for the first read of the account end with their own contexts.
func TestCallersDoNotWaitForEachOther(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.account.Before(faultOn(cosmostest.ReadAccount, cosmostest.Fault{Delay: 3 * time.Second}))
		began := time.Now()
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(i+1)*time.Second)
				defer cancel()
				err := b.Ping(ctx)
				if i < 2 {
					requireUnknown(t, err)
					require.Equal(t, time.Duration(i+1)*time.Second, time.Since(began))
				} else if i > 2 {
					require.NoError(t, err)
					require.Equal(t, 3*time.Second, time.Since(began))
				}
			})
		}
		all.Wait()
	})
}
