package cosmoslease

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/cosmos/cosmostest"
	"github.com/stretchr/testify/require"
)

// outages are faults of the service that one process sees.
var outages = map[string]cosmostest.Fault{
	"silent":      {Delay: time.Hour},
	"reset":       {Drop: true},
	"reply lost":  {Drop: true, Applied: true},
	"unavailable": {Status: 503},
	"throttled":   {Status: 429, RetryAfter: time.Second},
	"timeout":     {Status: 408},
	"RetryWith":   {Status: 449},
	"error":       {Status: 500, Applied: true},
	"no session":  {Status: 404, Substatus: 1002},
}

func TestAShortOutageIsNoLoss(t *testing.T) {
	for name, fault := range outages {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, b *bed) {
				lease, err := managerOf(t, b.Provider, leasing.Options{}).TryAcquire(t.Context(), "n")
				require.NoError(t, err)
				for range 3 {
					b.account.Before(func(op cosmostest.Operation) cosmostest.Fault { return fault })
					time.Sleep(8 * time.Second)
					b.account.Before(nil)
					before := lease.Renewals()
					time.Sleep(20 * time.Second)
					require.Greater(t, lease.Renewals(), before)
					require.NoError(t, lease.Err())
				}
				require.NoError(t, lease.Release(t.Context()))
				require.False(t, b.inspect("n").Held)
			})
		})
	}
}

// The lease of a holder that can't reach the service is lost before another claim can
// have the name. A waiter then gets the name.
func TestLossIsSignalledBeforeAnybodyElseCanHold(t *testing.T) {
	for name, fault := range outages {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBed(t, cosmostest.Options{})
				lease, err := managerOf(t, b.Provider, leasing.Options{TTL: 10 * time.Second}).TryAcquire(t.Context(), "n")
				require.NoError(t, err)
				other := b.process()
				waiting := make(chan *leasing.Lease, 1)
				go func() {
					next, err := managerOf(t, other, leasing.Options{}).Acquire(t.Context(), "n")
					require.NoError(t, err)
					waiting <- next
				}()
				time.Sleep(time.Second)
				b.account.Before(func(op cosmostest.Operation) cosmostest.Fault {
					if op.Verb == cosmostest.ReplaceItem && lease.Err() == nil { // a renewal
						return fault
					}
					// The reads that look for the outcome of a renewal fail. Otherwise the
					// renewal would succeed.
					return cosmostest.Fault{Drop: fault.Applied && op.Verb == cosmostest.ReadItem && lease.Err() == nil}
				})
				soon := 4 * time.Second
				if fault.Applied {
					soon += 10 * time.Second // the service has applied the last renewal
				}
				select {
				case <-lease.Done():
				case next := <-waiting:
					t.Fatalf("%s got in while %v is left", next.ID(), lease.Remaining())
				}
				lost := time.Now()
				require.ErrorIs(t, context.Cause(lease.Context()), abstractions.ErrLost)
				next := <-waiting
				require.Greater(t, next.Token(), lease.Token())
				require.LessOrEqual(t, time.Since(lost), soon)
				require.NoError(t, next.Release(t.Context()))
			})
		})
	}
}

// A waiter polls, and gets a name within a second of its release.
func TestWaitersOfManyProcessesAreServed(t *testing.T) {
	inBubble(t, func(t *testing.T, b *bed) {
		var last int64
		first, err := managerOf(t, b.Provider, leasing.Options{}).TryAcquire(t.Context(), "n")
		require.NoError(t, err)
		served := make(chan int64)
		for range 5 {
			p := b.process()
			go func() {
				m := managerOf(t, p, leasing.Options{})
				err := m.Do(t.Context(), "n", func(_ context.Context, lease *leasing.Lease) error {
					served <- lease.Token()
					time.Sleep(time.Second)
					return nil
				})
				require.NoError(t, err)
				served <- 0
			}()
		}
		time.Sleep(time.Minute)
		require.NoError(t, first.Release(t.Context()))
		released := time.Now()
		for range 10 {
			if token := <-served; token != 0 {
				require.Greater(t, token, last)
				last = token
			}
		}
		require.LessOrEqual(t, time.Since(released), 5*(time.Second+time.Second+500*time.Millisecond))
	})
}
