package cosmoslease

import (
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// T02: the clients' wall clocks have no effect. In this test they differ by minutes, in
// both directions, and the service's own clocks differ by as much as the options allow.
func TestTrap_T02_TheClientsClockDecidesNothing(t *testing.T) {
	for _, ahead := range []time.Duration{14 * time.Minute, -14 * time.Minute} {
		for _, replica := range []time.Duration{-2 * time.Second, 0, 2 * time.Second} {
			synctest.Test(t, func(t *testing.T) {
				now := func() time.Time { return time.Now().Add(ahead) }
				b := newBed(t, cosmostest.Options{Now: now, ReplicaSkew: replica})
				b.acquire("n", "a")
				sent := time.Now()
				time.Sleep(58 * time.Second)
				for {
					_, err := b.process().Acquire(t.Context(), acquireRequest("n", "b", time.Minute)) // a new process, which has watched no write
					if err == nil {
						break
					}
					require.ErrorIs(t, err, abstractions.ErrHeld)
					time.Sleep(250 * time.Millisecond)
				}
				require.GreaterOrEqual(t, time.Since(sent), time.Minute)
				require.LessOrEqual(t, time.Since(sent), time.Minute+b.Capabilities().Lateness.Fixed+250*time.Millisecond)
			})
		}
	}
}

// A waiter that has watched the lease from its beginning need not allow for the rounding
// and the skew of the service's clocks.
func TestAWatchedLeaseIsFreeSooner(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		watcher := b.process()
		try := func() (abstractions.Grant, time.Duration) {
			g, err := watcher.Acquire(t.Context(), acquireRequest("n", "b", time.Minute))
			if err == nil {
				return g, 0
			}
			var held *abstractions.HeldError
			require.ErrorAs(t, err, &held)
			left, known := held.Holder.Remaining()
			require.True(t, known)
			return g, left
		}
		const watched = time.Minute + time.Minute/100 + 100*time.Millisecond
		_, left := try()
		require.Equal(t, watched, left)
		time.Sleep(30 * time.Second)
		_, err := b.renew(g) // restarts the TTL
		require.NoError(t, err)
		_, left = try()
		require.Equal(t, watched, left)
		time.Sleep(left - 1)
		_, left = try()
		require.EqualValues(t, 1, left)
		_, err = b.process().Acquire(t.Context(), acquireRequest("n", "c", time.Minute))
		require.ErrorIs(t, err, abstractions.ErrHeld)
		time.Sleep(time.Nanosecond)
		next, _ := try()
		require.Greater(t, next.Token, g.Token)
	})
}

// A waiter does not take a name whose lease looks unchanged on a lagging replica, since the
// lease may have been renewed.
func TestAWatchBehindALaggingReplicaTakesNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		g := b.acquire("n", "a")
		watcher := b.process()
		watch := func() error {
			_, err := watcher.Acquire(t.Context(), acquireRequest("n", "b", time.Minute))
			return err
		}
		require.ErrorIs(t, watch(), abstractions.ErrHeld)
		time.Sleep(59 * time.Second)
		_, err := b.renew(g)
		require.NoError(t, err)
		b.account.Before(faultOn(cosmostest.ReadItem, cosmostest.Fault{Stale: true}))
		time.Sleep(10 * time.Second)
		require.ErrorIs(t, watch(), abstractions.ErrHeld, "it read what was before, and was refused the write")
		require.Equal(t, abstractions.FingerprintOf("a"), b.inspect("n").Fingerprint)
	})
}

// T45: the time to live of the container or the document has no effect on leases.
func TestTrap_T45_TheServicesTimeToLiveDecidesNothing(t *testing.T) {
	for _, expire := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			b := newBed(t, cosmostest.Options{})
			b.account.SetTTL(testDatabase, testContainer, 1)
			p := b.process(func(o *Options) { o.ExpireDocuments, o.Retention = expire, time.Minute })
			g, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Hour))
			require.NoError(t, err)
			time.Sleep(59 * time.Minute)
			require.True(t, b.inspect("n").Held, "after an hour of a container whose items live for a second")
			_, err = b.try("n", "b")
			require.ErrorIs(t, err, abstractions.ErrHeld)
			require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
			time.Sleep(59 * time.Second)
			require.Equal(t, g.Token, b.inspect("n").Token)
			time.Sleep(2 * time.Second)
			after := b.inspect("n").Token
			if expire {
				require.Zero(t, after, "deleted by the service")
			} else {
				require.Equal(t, g.Token, after)
			}
			next := b.acquire("n", "b")
			require.Greater(t, next.Token, g.Token)
		})
	}
}

// T54: a document whose token is ahead of the service's clock is kept beyond its retention.
// Otherwise a token could be granted twice.
func TestTrap_T54_TheServiceKeepsTokensOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		ahead.Store(int64(10 * time.Minute))
		b := newBed(t, cosmostest.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		b.account.SetTTL(testDatabase, testContainer, -1)
		p := b.process(func(o *Options) { o.ExpireDocuments, o.Retention = true, time.Minute })
		g, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
		require.NoError(t, err)
		ahead.Store(0) // the clock was corrected
		g.State = nil
		require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
		time.Sleep(9 * time.Minute)
		require.Equal(t, g.Token, b.inspect("n").Token)
		time.Sleep(2 * time.Minute)
		require.Zero(t, b.inspect("n").Token, "deleted by the service")
		require.Greater(t, b.acquire("n", "b").Token, g.Token)
	})
}

// An expired document that the service has not deleted yet may block a new document.
// The call then fails instead of retrying without end.
func TestTrap_T45_AnExpiredDocumentInTheWayIsUnavailable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBed(t, cosmostest.Options{ExpiredBlocks: true})
		b.account.SetTTL(testDatabase, testContainer, -1)
		p := b.process(func(o *Options) { o.ExpireDocuments = true })
		g, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
		require.NoError(t, err)
		require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
		time.Sleep(providerkit.DefaultRetention + time.Second)
		b.account.Record()
		_, err = p.Acquire(t.Context(), acquireRequest("n", "b", time.Minute))
		requireUnknown(t, err)
		verbs := slices.DeleteFunc(b.verbs(), func(v cosmostest.Verb) bool { return v == cosmostest.ReadAccount }) // azcosmos reads the account from time to time
		looks := []cosmostest.Verb{cosmostest.ReadItem, cosmostest.ReadItem}                                       // reads of the document and of the floor
		again := append([]cosmostest.Verb{cosmostest.CreateItem}, looks...)
		require.Equal(t, append(looks, slices.Repeat(again, 3)...), verbs)
	})
}
