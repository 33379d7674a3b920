package leasingtest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// worker stands in for an application: it works until its lease ends.
func worker(ctx context.Context, m *leasing.Manager) error {
	return m.Do(ctx, "jobs/report", func(ctx context.Context, _ *leasing.Lease) error {
		<-ctx.Done()
		return context.Cause(ctx)
	})
}

func TestLose(t *testing.T) {
	for _, reason := range []abstractions.LostReason{abstractions.LostTaken, abstractions.LostBroken, abstractions.LostGone} {
		m, p := leasingtest.NewManager(t, leasing.Options{})
		acquired := make(chan *leasing.Lease, 1)
		stopped := make(chan error, 1)
		go func() {
			stopped <- m.Do(t.Context(), "jobs/report", func(ctx context.Context, l *leasing.Lease) error {
				acquired <- l
				<-ctx.Done()
				return nil
			})
		}()
		lease := <-acquired
		leasingtest.Lose(t, p, lease, reason)
		var lost *abstractions.LostError
		require.ErrorAs(t, <-stopped, &lost)
		require.Equal(t, reason, lost.Reason)

		next, err := m.TryAcquire(t.Context(), "jobs/report")
		require.NoError(t, err, "the name is free for others")
		require.Greater(t, next.Token(), lease.Token())
		require.NoError(t, next.Release(t.Context()))
	}
}

func TestAnOutageInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, p := leasingtest.NewManager(t, leasing.Options{})
		stopped := make(chan error, 1)
		go func() { stopped <- worker(t.Context(), m) }()
		synctest.Wait()
		p.Use(leasingtest.Fail(leasingtest.Renew, leasingtest.Always, abstractions.ErrUnavailable))
		start := time.Now()
		require.ErrorIs(t, <-stopped, abstractions.ErrLost)
		require.Greater(t, time.Since(start), 29*time.Second)
		require.Less(t, time.Since(start), 30*time.Second)
	})
}

func TestHandlers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		boom := errors.New("boom")
		request := func(id string) abstractions.AcquireRequest {
			return abstractions.AcquireRequest{Name: "n", ID: id, Owner: "o", TTL: time.Minute}
		}
		p := leasingtest.NewProvider()
		defer p.Close()

		remove := p.Use(leasingtest.Fail(leasingtest.Acquire, 1, boom))
		_, err := p.Acquire(t.Context(), request("a"))
		require.ErrorIs(t, err, boom)
		_, err = p.Acquire(t.Context(), request("a"))
		require.NoError(t, err, "only once")
		remove()

		remove = p.Use(leasingtest.LoseReply(leasingtest.Release, leasingtest.Always, boom))
		require.ErrorIs(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}), boom)
		remove()
		held, err := p.Acquire(t.Context(), request("b"))
		require.NoError(t, err, "the release had taken effect")

		remove = p.Use(leasingtest.LoseReply(leasingtest.Renew, 1, boom))
		grant, err := p.Renew(t.Context(), abstractions.RenewRequest{Name: "n", ID: "b", Token: held.Token, TTL: time.Minute})
		require.ErrorIs(t, err, boom)
		require.Zero(t, grant, "an error comes without a result")
		remove()

		ended, end := context.WithCancel(t.Context())
		remove = p.Use(func(_ context.Context, _ leasingtest.Call, apply func() error) error {
			end()
			return apply()
		})
		_, err = p.Renew(ended, abstractions.RenewRequest{Name: "n", ID: "b", Token: held.Token, TTL: time.Minute})
		require.NoError(t, err, "the request had reached its server")
		remove()

		p.Use(leasingtest.Hang(leasingtest.Inspect, leasingtest.Always))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		start := time.Now()
		_, err = p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.Equal(t, time.Second, time.Since(start))
		p.Clear()

		p.Use(leasingtest.Delay(leasingtest.Inspect, leasingtest.Always, time.Second))
		start = time.Now()
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
		require.NoError(t, err)
		require.Equal(t, abstractions.FingerprintOf("b"), record.Fingerprint)
		require.Equal(t, time.Second, time.Since(start))

		p.Use(leasingtest.DelayReply(leasingtest.Break, leasingtest.Always, time.Second))
		go func() {
			time.Sleep(time.Millisecond)
			_, err := p.Acquire(t.Context(), request("c"))
			assert.NoError(t, err, "the break took effect at once")
		}()
		_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: "n", Immediate: true})
		require.NoError(t, err)
		require.Equal(t, 4, p.Count(leasingtest.Acquire))
		require.Equal(t, leasingtest.Call{Op: leasingtest.Acquire, Name: "n", ID: "a", TTL: time.Minute, At: p.Calls()[0].At, N: 1}, p.Calls()[0])
	})
}
