package faulttest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/distributedleasing/leasing/abstractions"
)

// LeasesEndInTime makes a provider hold 400 leases, which are renewed once. Two other providers each acquire half of the names. Both try
// repeatedly from the moment when a fifth of the TTL is left; one has also tried once before, and the other has not. Neither gets a name earlier
// than a TTL after its holder's last write was sent, nor later than Capabilities.Lateness allows, plus 30 s for a busy machine. Where Lateness is
// Watched, the TTL for the provider that has not tried before begins with its first request. disturb, unless nil, is called when all leases have
// been renewed. It disturbs the backend, and may restart the whole TTL of each lease. At most 16 requests run at a time.
func LeasesEndInTime(t *testing.T, ttl time.Duration, open func() abstractions.Provider, disturb func()) {
	t.Helper()
	const leases, slack = 400, 30 * time.Second
	holder, waiters := open(), [2]abstractions.Provider{open(), open()}
	lateness := holder.Capabilities().Lateness
	most := lateness.After(ttl)
	if lateness.Watched {
		most -= ttl
	}
	if disturb != nil {
		most += ttl
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*ttl+4*slack)
	defer cancel()
	slots := make(chan struct{}, 16)
	once := func(request func() error) (sent time.Time, err error) {
		slots <- struct{}{}
		defer func() { <-slots }()
		return time.Now(), request()
	}
	repeat := func(request func() error) (sent time.Time, err error) {
		for {
			sent, err = once(request)
			if ctx.Err() != nil || !errors.Is(err, abstractions.ErrHeld) && !errors.Is(err, abstractions.ErrUnavailable) && !errors.Is(err, abstractions.ErrThrottled) {
				return sent, err
			}
			<-time.After(ttl / 50)
		}
	}
	prefix := "expiry/" + abstractions.NewID() + "/"
	var lock sync.Mutex
	var after [2][]time.Duration // from the end of the TTL until a waiter had the name
	var renewed, all sync.WaitGroup
	renewed.Add(leases)
	for i := range leases {
		all.Go(func() {
			<-time.After(time.Duration(i) * ttl / 2 / leases) // spread out, since some stores have a resolution of a second
			waiter := i % 2
			req := abstractions.AcquireRequest{Name: fmt.Sprint(prefix, i), ID: abstractions.NewID(), Owner: "dies", TTL: ttl}
			var grant abstractions.Grant
			sent, err := repeat(func() (err error) { grant, err = holder.Acquire(ctx, req); return err })
			again, lost := repeat(func() error {
				_, err := holder.Renew(ctx, abstractions.RenewRequest{Name: req.Name, ID: req.ID, Token: grant.Token, TTL: ttl, State: grant.State})
				return err
			})
			renewed.Done()
			if lost == nil {
				sent = again
			} else if !errors.Is(lost, abstractions.ErrLost) { // a lost lease means that the machine was slow
				err = errors.Join(err, lost)
			}
			other := req
			other.ID = abstractions.NewID()
			take := func() error { _, err := waiters[waiter].Acquire(ctx, other); return err }
			if waiter == 0 {
				_, _ = once(take)
			}
			end := sent.Add(ttl)
			<-time.After(time.Until(end) - ttl/5)
			if waiter == 1 && lateness.Watched {
				end = time.Now().Add(ttl)
			}
			_, taken := repeat(take)
			free := time.Since(end)
			lock.Lock()
			defer lock.Unlock()
			after[waiter] = append(after[waiter], free)
			if err = errors.Join(err, taken); err != nil {
				t.Errorf("%s: %v", req.Name, err)
			}
		})
	}
	if renewed.Wait(); disturb != nil {
		disturb()
	}
	all.Wait()
	for waiter, which := range []string{"have watched", "come late"} {
		free := after[waiter]
		slices.Sort(free)
		shortest, median, longest := free[0], free[len(free)/2], free[len(free)-1]
		t.Logf("%d leases of %v, to waiters that %s: free %v / %v / %v (min / median / max) after their TTL; stated %v", len(free), ttl, which,
			shortest.Round(time.Millisecond), median.Round(time.Millisecond), longest.Round(time.Millisecond), most)
		assert.GreaterOrEqual(t, shortest, time.Duration(0), "early")
		assert.LessOrEqual(t, longest, most+slack, "late")
	}
}
