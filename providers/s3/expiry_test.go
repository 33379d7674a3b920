package s3lease

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// A lease whose holder died is free no earlier than its TTL after its last write was sent,
// and no later than Capabilities.Lateness says, to waiters who have watched it and to those
// who come at the end.
func TestLeasesEndNeitherEarlyNorLate(t *testing.T) {
	const leases, ttl, late, slack = 128, 5 * time.Second, 4 * time.Second, 5 * time.Second
	for name, variable := range servers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			holder, waiter := open(t, named(t, variable)), open(t, named(t, variable))
			lateness := waiter.Capabilities().Lateness.Fixed
			prefix, lock, after := "expiry/"+abstractions.NewID(), sync.Mutex{}, []time.Duration(nil)
			var all sync.WaitGroup
			for i := range leases {
				all.Go(func() {
					<-time.After(time.Duration(i) * time.Second / leases) // all parts of the store's second
					req := wish(abstractions.NewID(), ttl)
					req.Name = fmt.Sprint(prefix, i)
					g, err := holder.Acquire(t.Context(), req)
					if err != nil {
						t.Error(err)
						return
					}
					sent := time.Now()
					if _, err = holder.Renew(t.Context(), renewal(g)); err != nil {
						t.Error(err)
						return
					}
					if i%2 == 0 {
						<-time.After(late)
					}
					for req.ID = abstractions.NewID(); ; <-time.After(50 * time.Millisecond) {
						if _, err = waiter.Acquire(t.Context(), req); err == nil {
							break
						}
						if !errors.Is(err, abstractions.ErrHeld) {
							t.Error(err)
							return
						}
					}
					lock.Lock()
					defer lock.Unlock()
					after = append(after, time.Since(sent)-ttl)
				})
			}
			all.Wait()
			require.Len(t, after, leases)
			slices.Sort(after)
			t.Logf("%d leases of %v were free %v to %v after their TTL, median %v; stated: %v at most", leases, ttl, after[0], after[leases-1], after[leases/2], lateness)
			require.GreaterOrEqual(t, after[0], time.Duration(0))
			require.LessOrEqual(t, after[leases-1], lateness+slack)
		})
	}
}
