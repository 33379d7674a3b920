package bloblease

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"github.com/stretchr/testify/require"
)

// fenced is a resource that checks tokens.
type fenced struct{ latest int64 }

func (f *fenced) write(token int64) bool {
	if token < f.latest {
		return false
	}
	f.latest = token
	return true
}

func managerOf(t testing.TB, p abstractions.Provider, o leasing.Options) *leasing.Manager {
	t.Helper()
	m, err := leasing.NewManager(p, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		_ = m.Close(ctx) // leases left at this point are not a failure: the test itself checks releases
	})
	return m
}

// The service restarts without its data while a lease is held. The lease is lost,
// the next token is greater, and the holder's late writes are refused.
func TestBlobServiceThatLostItsDataUnderAHolder(t *testing.T) {
	t.Parallel()
	server := StartAzurite(t)
	b := bedOf(t, Options{ConnectionString: server.ConnectionString(), Container: newContainer(), Create: true})
	m := managerOf(t, b, leasing.Options{TTL: minTTL})
	lease, err := m.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	var resource fenced
	require.True(t, resource.write(lease.Token()))
	server.Restart()
	other, _ := b.process()
	next, err := managerOf(t, other, leasing.Options{}).Acquire(t.Context(), "n")
	require.NoError(t, err)
	require.Greater(t, next.Token(), lease.Token())
	require.True(t, resource.write(next.Token()))
	require.False(t, resource.write(lease.Token()))
	<-lease.Done()
	var lost *abstractions.LostError
	require.ErrorAs(t, context.Cause(lease.Context()), &lost)
	require.Contains(t, []abstractions.LostReason{abstractions.LostTaken, abstractions.LostGone}, lost.Reason, "gone, if the renewal came before the next acquire")
	require.NoError(t, next.Release(t.Context()))
}

// The service forgets a lease and keeps the blob, as Azurite does after a restart. The
// holder's next renewal acquires the lease again, since no other claim has had the
// name.
func TestBlobServiceThatForgotALease(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	g := b.acquire("n", "a")
	require.NoError(t, b.driver.store.release(t.Context(), b.blobName("n"), "a"))
	require.False(t, b.view("n").isLocked())
	require.NoError(t, b.renew(g))
	require.True(t, b.view("n").isLocked())
	_, err := b.try("n", "b")
	require.ErrorIs(t, err, abstractions.ErrHeld)
}

// The service freezes and recovers: a short pause causes no loss, and after a long pause the
// holder has noticed the loss before another claim can have the name.
func TestBlobServiceThatFreezes(t *testing.T) {
	t.Parallel()
	server := StartAzurite(t)
	b := bedOn(t, server)
	m := managerOf(t, b, leasing.Options{TTL: minTTL, Tuning: leasing.Tuning{RequestTimeout: time.Second}})
	lease, err := m.With(abstractions.AcquireOptions{RenewCadence: time.Second}).TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	server.Pause()
	<-time.After(3 * time.Second)
	server.Resume()
	before := lease.Renewals()
	require.Eventually(t, func() bool { return lease.Renewals() > before }, time.Minute, 10*time.Millisecond)
	require.NoError(t, lease.Err())

	server.Pause()
	<-lease.Done()
	requireLost(t, context.Cause(lease.Context()), abstractions.LostExpired)
	server.Resume()
	other, _ := b.process()
	next, err := managerOf(t, other, leasing.Options{}).Acquire(t.Context(), "n")
	require.NoError(t, err)
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Release(t.Context()))
}

// T42: a frozen service does not block a call beyond the deadline of the call's context.
func TestTrap_T42_BlobFrozenServiceHoldsNoCallUp(t *testing.T) {
	t.Parallel()
	server := StartAzurite(t)
	b := bedOn(t, server)
	g, ended := b.acquire("n", "a"), b.acquire("m", "a")
	calls := everyCall(b.Provider, g)
	for _, what := range []string{"release", "break"} { // the service applies the request later
		calls[what] = everyCall(b.Provider, ended)[what]
	}
	server.Pause()
	for what, call := range calls {
		began := time.Now()
		require.ErrorIs(t, call(within(t, 200*time.Millisecond)), context.DeadlineExceeded, what)
		require.Less(t, time.Since(began), 5*time.Second, what)
	}
	server.Resume()
	require.NoError(t, b.renew(g))
}

// A lease is lost when its container is deleted, and the next token of its name is greater.
func TestBlobContainerDeletedUnderAHolder(t *testing.T) {
	t.Parallel()
	for _, onDemand := range []bool{false, true} {
		b := bedOf(t, Options{ConnectionString: servertest.Require(t, azuriteVariable), Container: newContainer(), Create: onDemand})
		g := b.acquire("n", "a")
		_, err := b.admin.Delete(t.Context(), nil)
		require.NoError(t, err)
		requireLost(t, b.renew(g), abstractions.LostGone)
		_, err = b.try("n", "b")
		if !onDemand {
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			require.ErrorContains(t, err, "az storage container create")
			require.ErrorIs(t, b.Ping(t.Context()), abstractions.ErrNotSetUp)
			_, err = b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
			_, err = b.admin.Create(t.Context(), nil)
			require.NoError(t, err)
		} else if err != nil {
			require.ErrorIs(t, err, abstractions.ErrThrottled, "the service is not done with deleting it")
		}
		var next abstractions.Grant
		require.Eventually(t, func() bool {
			next, err = b.try("n", "b")
			return err == nil && next.Token > g.Token
		}, time.Minute, 100*time.Millisecond)
		requireLost(t, b.renew(g), abstractions.LostTaken)
		require.NoError(t, b.Release(t.Context(), releaseRequest(g)), "late, by one that is no holder")
		require.NoError(t, b.renew(next))
	}
}

// A lease is lost while its container is being deleted, which takes the service half a minute.
func TestBlobContainerBeingDeleted(t *testing.T) {
	t.Parallel()
	for _, onDemand := range []bool{false, true} {
		b := bedOf(t, Options{ConnectionString: servertest.Require(t, azuriteVariable), Container: newContainer(), Create: onDemand})
		g := b.acquire("n", "a")
		b.recorder.answerWith("", 409, "x-ms-error-code", "ContainerBeingDeleted")
		requireLost(t, b.renew(g), abstractions.LostGone)
		_, err := b.try("n", "b")
		if onDemand {
			require.ErrorIs(t, err, abstractions.ErrThrottled, "it is made again as soon as it is gone")
		} else {
			require.ErrorIs(t, err, abstractions.ErrNotSetUp)
		}
	}
}

// During an outage the timers of package leasing bound each call: no call hangs, and the
// waiter gets the name when the service is back.
func TestBlobWaiterOutlivesAnOutage(t *testing.T) {
	t.Parallel()
	server := StartAzurite(t)
	b := bedOf(t, Options{ConnectionString: server.ConnectionString(), Container: newContainer(), Create: true})
	g := b.acquire("n", "a")
	other, _ := b.process()
	m := managerOf(t, other, leasing.Options{Tuning: leasing.Tuning{MaxPoll: 200 * time.Millisecond}})
	got := make(chan error, 1)
	go func() {
		lease, err := m.Acquire(t.Context(), "n")
		if err == nil && lease.Token() <= g.Token {
			err = abstractions.ErrStale
		}
		if err == nil {
			err = lease.Release(t.Context())
		}
		got <- err
	}()
	server.Kill()
	<-time.After(time.Second)
	server.Restart() // without its data
	require.NoError(t, <-got)
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// Managers of several processes take turns, and the fenced resource gets rising tokens.
func TestBlobManagersTakeTurns(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	var mu sync.Mutex // for the race detector, which does not see the lease
	var resource fenced
	errs := make(chan error)
	const managers, rounds = 6, 5
	for range managers {
		p, _ := b.process()
		m := managerOf(t, p, leasing.Options{TTL: minTTL, Tuning: leasing.Tuning{MinPoll: 10 * time.Millisecond, MaxPoll: 100 * time.Millisecond}})
		go func() {
			for range rounds {
				errs <- m.Do(t.Context(), "n", func(_ context.Context, lease *leasing.Lease) error {
					mu.Lock()
					defer mu.Unlock()
					if lease.Token() <= resource.latest || !resource.write(lease.Token()) {
						return abstractions.ErrStale
					}
					return nil
				})
			}
		}()
	}
	for range managers * rounds {
		require.NoError(t, <-errs)
	}
	require.Equal(t, resource.latest, b.inspect("n").Token)
}
