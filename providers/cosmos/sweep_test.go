package cosmoslease

import (
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/recordstest"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// T28: Sweep forgets the names that were used once, and no others.
func TestTrap_T28_NamesUsedOnceAreForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		other := b.process(func(o *Options) { o.Prefix = "other" })
		_, err := other.Acquire(t.Context(), acquireRequest("theirs", "a", time.Minute))
		require.NoError(t, err)
		infinite := acquireRequest("infinite", "a", abstractions.Infinite)
		_, err = b.Acquire(t.Context(), infinite)
		require.NoError(t, err)
		_, err = b.Acquire(t.Context(), acquireRequest("long", "a", 100*time.Hour))
		require.NoError(t, err)
		for i := range 250 {
			g := b.acquire(fmt.Sprintf("reply/%d", i), "a")
			if i%2 == 0 {
				b.release(g) // the other leases run out
			}
		}
		require.NoError(t, b.Release(t.Context(), abstractions.ReleaseRequest{Name: "never held", ID: "x"}))
		n, err := b.Sweep(t.Context())
		require.NoError(t, err)
		require.Zero(t, n, "not idle yet")
		time.Sleep(providerkit.DefaultRetention + 2*time.Minute)
		late := b.acquire("reply/7", "b")
		n, err = b.Sweep(t.Context())
		require.NoError(t, err)
		require.Equal(t, 250, n, "249 of the 250, and the one that nobody held")
		list, err := b.List(t.Context(), abstractions.ListRequest{})
		require.NoError(t, err)
		require.Len(t, list.Records, 3)
		_, err = b.renew(late)
		require.NoError(t, err)
		require.True(t, b.inspect("infinite").Held)
		record, err := other.Inspect(t.Context(), abstractions.InspectRequest{Name: "theirs"})
		require.NoError(t, err)
		require.NotZero(t, record.Token)
	})
}

// A document that changes between the read and the deletion stays.
func TestASweepDeletesNothingThatHasChanged(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.release(b.acquire("n", "a"))
		time.Sleep(2 * providerkit.DefaultRetention)
		other := b.process()
		b.account.Before(faultOn(cosmostest.DeleteItem, cosmostest.Fault{Delay: 10 * time.Second}))
		go func() {
			time.Sleep(5 * time.Second)
			_, err := other.Acquire(t.Context(), acquireRequest("n", "b", time.Minute))
			require.NoError(t, err)
		}()
		ctx := t.Context()
		n, err := b.process(func(o *Options) { o.Timeout = time.Minute }).Sweep(ctx)
		require.NoError(t, err)
		require.Zero(t, n)
		require.Equal(t, abstractions.FingerprintOf("b"), b.inspect("n").Fingerprint)
	})
}

// A token that is ahead of the service's clock is not forgotten. Otherwise it could be
// granted twice.
func TestASweepKeepsTokensOfTheFuture(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var ahead atomic.Int64
		ahead.Store(int64(10 * time.Minute))
		b := newBed(t, cosmostest.Options{Now: func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }})
		g := b.acquire("n", "a")
		ahead.Store(0) // the clock was corrected
		b.release(g)
		sweep := func() int {
			n, err := b.process(func(o *Options) { o.Retention = time.Minute }).Sweep(t.Context())
			require.NoError(t, err)
			return n
		}
		time.Sleep(2 * time.Minute)
		require.Zero(t, sweep())
		time.Sleep(10 * time.Minute)
		require.Equal(t, 1, sweep())
		require.Greater(t, b.acquire("n", "b").Token, g.Token)
	})
}

func TestForeverForgetsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.release(b.acquire("n", "a"))
		time.Sleep(1000 * time.Hour)
		n, err := b.process(func(o *Options) { o.Retention = abstractions.Infinite }).Sweep(t.Context())
		require.NoError(t, err)
		require.Zero(t, n)
		require.NotZero(t, b.inspect("n").Token)
	})
}

// A document of another program is neither listed nor swept.
func TestForeignDocumentsAreNeitherListedNorSwept(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		b.acquire("n", "a")
		c, err := b.driver.store.connection.container(t.Context())
		require.NoError(t, err)
		for _, body := range []string{`{"id": "x"}`, `{"id": "y", "name": "y"}`, `{"id": "z", "lease": {"name": "other", "v": 1, "token": 1}}`} {
			_, err := c.CreateItem(t.Context(), pkOf(body), []byte(body), nil)
			require.NoError(t, err)
		}
		page, err := b.List(t.Context(), abstractions.ListRequest{})
		require.NoError(t, err)
		require.Len(t, page.Records, 1)
		_, err = b.List(t.Context(), abstractions.ListRequest{After: "%"})
		require.ErrorIs(t, err, abstractions.ErrInvalid)
		_, err = b.List(t.Context(), abstractions.ListRequest{After: "0 a\r\nb"})
		require.ErrorIs(t, err, abstractions.ErrInvalid, "a line break would end the header")
	})
}

// A listing or a sweep that is incomplete returns an error.
func TestFailedQueriesAreNoEmptyPages(t *testing.T) {
	for status, want := range map[cosmostest.Fault]error{
		{Status: 429}: abstractions.ErrThrottled, {Status: 500}: abstractions.ErrUnavailable, {Status: 403}: abstractions.ErrDenied, {Status: 404}: abstractions.ErrNotSetUp,
		{Status: 404, Substatus: 1003}: abstractions.ErrNotSetUp, {Status: 404, Substatus: 1002}: abstractions.ErrUnavailable, {Status: 400}: abstractions.ErrNotSetUp, {Drop: true}: abstractions.ErrUnavailable,
	} {
		inBubble(t, func(t *testing.T, b *bed) {
			b.acquire("n", "a")
			b.account.Before(faultOn(cosmostest.QueryItems, status))
			_, err := b.List(t.Context(), abstractions.ListRequest{})
			require.ErrorIs(t, err, want, "%+v", status)
			_, err = b.Sweep(t.Context())
			require.ErrorIs(t, err, want, "%+v", status)
			b.account.Before(faultOn(cosmostest.DeleteItem, status))
			time.Sleep(2 * providerkit.DefaultRetention)
			_, err = b.Sweep(t.Context())
			if status == (cosmostest.Fault{Status: 404}) {
				require.NoError(t, err, "somebody else has deleted it")
			} else {
				require.ErrorIs(t, err, want, "%+v", status)
			}
		})
	}
}

// T127: if a token from a clock that was ahead is forgotten, later tokens are still
// greater.
func TestTrap_T127_TheFloorIsKeptAndObeyed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) { recordstest.Floor(t, b.Provider, &b.Provider.driver.Records) })
}
