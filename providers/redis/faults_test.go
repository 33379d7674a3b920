package redislease

import (
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// lost makes a call whose reply is lost.
func (b *bed) lost(do func() error) {
	b.t.Helper()
	b.recorder.loseReplies(io.ErrUnexpectedEOF)
	err := do()
	b.recorder.loseReplies(nil)
	redistest.RequireUncertain(b.t.(*testing.T), err)
}

func TestTrap_T13_AnAcquireWithoutAnAnswerIsRepeated(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.lost(func() error { _, err := b.Try("n", "a", time.Minute); return err })
	require.True(t, b.stored("n").Held(), "it was applied")
	g := b.Take("n", "a", time.Minute)
	require.NoError(t, b.renew(g, time.Minute))
	r, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	require.Equal(t, g.Token, r.Token)

	b.lost(func() error { _, err := b.Try("given up", "a", time.Minute); return err })
	b.release("given up", "a")
	require.False(t, b.stored("given up").Held())
}

func TestTrap_T14_ARepetitionIsNoConflict(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	ctx := t.Context()
	g := b.Take("n", "a", time.Minute)
	b.lost(func() error { return b.renew(g, time.Hour) })
	require.Greater(t, b.stored("n").Left(), time.Minute, "it was applied")
	require.NoError(t, b.renew(g, time.Hour))
	b.lost(func() error {
		_, err := b.Break(ctx, abstractions.BreakRequest{Name: "n", IfToken: g.Token})
		return err
	})
	r, err := b.Break(ctx, abstractions.BreakRequest{Name: "n", IfToken: g.Token})
	require.NoError(t, err)
	require.True(t, r.WasHeld)
	b.lost(func() error { return b.Release(ctx, abstractions.ReleaseRequest{Name: "n", ID: "a"}) })
	next := b.Take("n", "b", time.Minute)
	b.release("n", "a")
	require.NoError(t, b.renew(next, time.Minute), "the repetition does not touch the next holder")
	b.lost(func() error {
		_, err := b.Break(ctx, abstractions.BreakRequest{Name: "n", IfToken: next.Token, Immediate: true})
		return err
	})
	last := b.Take("n", "c", time.Minute)
	_, err = b.Break(ctx, abstractions.BreakRequest{Name: "n", IfToken: next.Token, Immediate: true})
	require.ErrorIs(t, err, abstractions.ErrStale)
	require.NoError(t, b.renew(last, time.Minute))
}

// The provider itself never sends an immediate break twice, even if the outcome of the first
// is unknown: the second copy could end the next holder's lease.
func TestTrap_T63_ABreakIsSentOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "a", time.Minute)
	var breaks atomic.Int64
	b.recorder.doBefore(func(cmds []redis.Cmder) {
		for _, cmd := range cmds {
			if cmd.Name() == "evalsha" && cmd.Args()[1] == script.Break.SHA {
				breaks.Add(1)
			}
		}
	})
	b.breakNow("n")
	require.EqualValues(t, 1, breaks.Swap(0))
	b.server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := b.Break(ctx, abstractions.BreakRequest{Name: "n", Immediate: true})
	redistest.RequireUncertain(t, err)
	b.server.Resume()
	require.EqualValues(t, 1, breaks.Load())
}

func TestTrap_T56_ADelayedAcquireAfterItsReleaseIsRefused(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.server.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err := b.Acquire(ctx, redistest.AcquireRequest("n", "a", time.Minute))
	redistest.RequireUncertain(t, err)
	b.server.Resume() // the acquire is applied now, or was applied before
	b.release("n", "a")
	_, err = b.Try("n", "a", time.Minute) // a late copy
	require.ErrorIs(t, err, abstractions.ErrReleased)
	b.eventually(func() bool {
		g, err := b.Try("n", "b", time.Minute)
		require.NoError(t, err)
		return g.Token > 0
	})
}

func TestTrap_T42_AFrozenServerHoldsNoCallUpBeyondItsContext(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	g := b.Take("n", "a", time.Minute)
	_, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
	require.NoError(t, err)
	b.server.Pause()
	for name, call := range map[string]func(ctx context.Context) error{
		"acquire": func(ctx context.Context) error {
			_, err := b.Acquire(ctx, redistest.AcquireRequest("m", "b", time.Minute))
			return err
		},
		"renew": func(ctx context.Context) error {
			_, err := b.Renew(ctx, abstractions.RenewRequest{Name: "n", ID: "a", Token: g.Token, TTL: time.Minute})
			return err
		},
		"release": func(ctx context.Context) error {
			return b.Release(ctx, abstractions.ReleaseRequest{Name: "m", ID: "b"})
		},
		"break": func(ctx context.Context) error {
			_, err := b.Break(ctx, abstractions.BreakRequest{Name: "m"})
			return err
		},
		"inspect": func(ctx context.Context) error {
			_, err := b.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
			return err
		},
		"ping": b.Ping,
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		began := time.Now()
		redistest.RequireUncertain(t, call(ctx))
		require.Less(t, time.Since(began), 2*time.Second, name)
		cancel()

		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(50*time.Millisecond, cancel)
		began = time.Now()
		require.Error(t, call(ctx))
		require.Less(t, time.Since(began), 2*time.Second, name)
	}
	b.server.Resume()
	require.NoError(t, b.renew(g, time.Minute))
}

// fenced is a resource that checks tokens.
type fenced struct{ latest int64 }

func (f *fenced) write(token int64) bool {
	if token < f.latest {
		return false
	}
	f.latest = token
	return true
}

func TestAShortPauseIsNoLoss(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	m := managerOf(t, b, leasing.Options{TTL: 3 * time.Second})
	lease, err := m.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	for range 2 {
		before := lease.Renewals()
		require.NoError(t, b.admin.Do(t.Context(), "CLIENT", "PAUSE", 300, "ALL").Err())
		b.server.Pause()
		<-time.After(300 * time.Millisecond)
		b.server.Resume()
		b.eventually(func() bool { return lease.Renewals() > before })
		require.NoError(t, lease.Err())
	}
	require.NoError(t, lease.Release(t.Context()))
}

func TestLossIsSignalledBeforeAnybodyElseCanHold(t *testing.T) {
	t.Parallel()
	for how, fail := range map[string]struct{ begin, end func(b *bed) }{
		"frozen": {begin: func(b *bed) { b.server.Pause() }, end: func(b *bed) { b.server.Resume() }},
		"paused": {
			begin: func(b *bed) {
				require.NoError(b.t, b.admin.Do(b.t.Context(), "CLIENT", "PAUSE", 60_000, "WRITE").Err())
			},
			end: func(b *bed) {
				require.NoError(b.t, b.admin.Do(b.t.Context(), "CLIENT", "UNPAUSE").Err())
			},
		},
		"killed": {begin: func(b *bed) { b.server.Kill() }, end: func(b *bed) { b.server.Restart() }},
	} {
		t.Run(how, func(t *testing.T) {
			b := newBed(t, redistest.Options{Persist: true})
			m := managerOf(t, b, leasing.Options{TTL: time.Second})
			lease, err := m.TryAcquire(t.Context(), "n")
			require.NoError(t, err)
			resource := &fenced{}
			require.True(t, resource.write(lease.Token()))
			fail.begin(b)
			select {
			case <-lease.Done():
			case <-time.After(time.Minute):
				t.Fatal("no loss")
			}
			redistest.RequireLost(t, context.Cause(lease.Context()), abstractions.LostExpired)
			require.Zero(t, lease.Remaining())
			fail.end(b)
			other, _ := b.process()
			next, err := managerOf(t, other, leasing.Options{}).Acquire(t.Context(), "n")
			require.NoError(t, err)
			require.Greater(t, next.Token(), lease.Token())
			require.True(t, resource.write(next.Token()))
			require.False(t, resource.write(lease.Token()))
			require.NoError(t, next.Release(t.Context()))
		})
	}
}

// A server that has lost its data may grant a name whose lease is still trusted; see
// the package documentation. The token rises, the resource refuses the former holder,
// whose lease is lost, and the waiter is served although the queue is lost as well.
func TestTrap_T54_AServerThatLostItsDataStillRaisesTokens(t *testing.T) {
	t.Parallel()
	for how, lose := range map[string]func(b *bed){
		"restarted empty": func(b *bed) {
			b.server.Kill()
			b.server.RestartEmpty()
		},
		"flushed": func(b *bed) { require.NoError(b.t, b.admin.FlushAll(b.t.Context()).Err()) },
	} {
		t.Run(how, func(t *testing.T) {
			b := newBed(t, redistest.Options{})
			m := managerOf(t, b, leasing.Options{TTL: 2 * time.Second})
			lease, err := m.TryAcquire(t.Context(), "n")
			require.NoError(t, err)
			write := newResource(t)
			require.NoError(t, write(lease.Token()))
			other, _ := b.process()
			waiter := managerOf(t, other, leasing.Options{})
			type outcome struct {
				lease *leasing.Lease
				err   error
			}
			got := make(chan outcome, 1)
			go func() {
				next, err := waiter.Acquire(t.Context(), "n")
				got <- outcome{next, err}
			}()
			b.eventually(func() bool { return len(b.waitList("n")) == 1 })
			lose(b)
			next := <-got
			require.NoError(t, next.err)
			require.Greater(t, next.lease.Token(), lease.Token())
			require.NoError(t, write(next.lease.Token()))
			require.ErrorIs(t, write(lease.Token()), abstractions.ErrStale)
			select {
			case <-lease.Done():
			case <-time.After(time.Minute):
				t.Fatal("no loss")
			}
			require.ErrorIs(t, context.Cause(lease.Context()), abstractions.ErrLost)
			require.NoError(t, next.lease.Err())
			require.NoError(t, next.lease.Release(t.Context()))
		})
	}
}

func TestSentinelFailoverInTheMiddle(t *testing.T) {
	t.Parallel()
	c := redistest.StartSentinel(t)
	url := "redis://" + c.Addrs()[0]
	for _, addr := range c.Addrs()[1:] {
		url += "," + addr
	}
	p := openTest(t, Options{URL: url + "?mode=sentinel", Master: c.MasterName})
	m := managerOf(t, p, leasing.Options{TTL: 2 * time.Second})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	var last int64
	again := func() {
		lease, err := m.Acquire(ctx, "n")
		require.NoError(t, err)
		require.Greater(t, lease.Token(), last)
		last = lease.Token()
		if err := lease.Release(ctx); err != nil {
			require.True(t, errors.Is(err, abstractions.ErrUnavailable) || errors.Is(err, abstractions.ErrLost), err)
		}
	}
	for range 20 {
		again()
	}
	master := c.Master()
	master.Kill()
	again() // takes until the failover
	c.WaitForFailover(master)
	for range 20 {
		again()
	}
	c.Failover()
	for range 20 {
		again()
	}
}
