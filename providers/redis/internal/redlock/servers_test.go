package redlock

import (
	"context"
	"errors"
	"fmt"
	"github.com/distributedleasing/leasing/abstractions/servertest"
	"net"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

// One server under two addresses is refused, even without a bootstrap. On a busy machine the first attempts may end
// while a node's answer is outstanding, so that their outcome is unknown.
func TestTrap_T79_RedlockServerWithTwoAddressesIsRefused(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{})
	again := *r.admins[0].Options()
	again.Addr = fmt.Sprintf("localhost:%d", r.servers[0].Port())
	second := redis.NewClient(&again)
	defer second.Close()
	p := r.processOf(r.servers[0].Client(t), second, r.servers[1].Client(t))
	for range 3 {
		servertest.Eventually(t, "the servers are refused", func(ctx context.Context) error {
			_, err := p.Acquire(ctx, redistest.AcquireRequest("a", abstractions.NewID(), time.Minute))
			require.ErrorContains(t, err, "servers 1 and 2")
			if errors.Is(err, abstractions.ErrInvalid) {
				return nil
			}
			return err
		})
		require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrInvalid)
	}
	require.Empty(t, r.holder(0, "a"))
}

// An address now leads to another server, which this process also uses under that server's own
// address. That server has only one vote. The process asks all servers again once the address leads
// to its former server.
func TestTrap_T79_RedlockAddressThatMovesGivesNoSecondVote(t *testing.T) {
	t.Parallel()
	const longest = 500 * time.Millisecond
	r := newRing(t, 3, Options{MaxTTL: longest})
	var address atomic.Pointer[string]
	point := func(server int) {
		addr := r.servers[server].Addr()
		address.Store(&addr)
	}
	point(1)
	moving := *r.admins[1].Options()
	moving.Addr = "moving:1"
	moving.Dialer = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, *address.Load())
	}
	client := redis.NewClient(&moving)
	defer client.Close()
	p := r.processOf(r.servers[0].Client(t), client, r.servers[2].Client(t))
	try := func(name string) error {
		_, err := p.Acquire(t.Context(), redistest.AcquireRequest(name, abstractions.NewID(), longest))
		return err
	}
	require.NoError(t, try("before"))

	point(0)
	r.servers[1].Kill()
	r.servers[2].Kill()
	require.Error(t, try("a"), "one server is no majority")
	require.ErrorIs(t, try("b"), abstractions.ErrInvalid)

	point(1)
	r.servers[1].Restart()
	require.NoError(t, r.admins[0].ClientKillByFilter(t.Context(), "TYPE", "normal").Err())
	r.eventually(func() bool { return try("c") == nil })
}

// prepare makes a process fetch the admission of all servers and subscribe to each of them, even on
// a slow machine.
func (p *process) prepare() {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(p.t.Context(), time.Minute)
	defer cancel()
	_, err := p.redlock.admitAll(ctx, script.Admit)
	require.NoError(p.t, err)
	for _, d := range p.redlock.nodes {
		require.NoError(p.t, d.Waiters.Listen(ctx))
	}
}

// Waiters queue at one server, in whatever order their clients list the servers: the
// release wakes one of them, and reserves the name for no other.
func TestTrap_T77_RedlockWaitersQueueAtOneServerWhateverTheListSays(t *testing.T) {
	t.Parallel()
	r := newRing(t, 5, Options{})
	holder := r.process()
	g := holder.Take("a", "x", time.Minute)
	var waiters []*process
	var wakeups []<-chan struct{}
	for i := range r.servers {
		list := append(slices.Clone(r.servers[i:]), r.servers[:i]...)
		slices.Reverse(list)
		p := r.processWith(list)
		p.prepare()
		waiters = append(waiters, p)
		wakeups = append(wakeups, p.register("a", fmt.Sprint("y", i)))
	}
	queued := func(server int) int64 { return r.admins[server].ZCard(t.Context(), r.keys("a").Queue).Val() }
	require.EqualValues(t, 5, queued(0))
	for i, p := range waiters {
		require.NoError(t, holder.ReleaseGrant(g))
		redistest.AwaitWakeup(t, wakeups[i])
		for server := 1; server < 5; server++ {
			require.Zero(t, queued(server))
		}
		holder, g = p, p.Take("a", fmt.Sprint("y", i), time.Minute)
	}
}

// While it is another claim's turn, the server that has the queue refuses a new claim,
// even if the claim's process lists the servers in another order.
func TestTrap_T77_RedlockReservationHoldsForEveryList(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{})
	now, err := r.admins[0].Time(t.Context()).Result()
	require.NoError(t, err)
	r.put(0, "a", redistest.Reserved(now.UnixMicro(), now.Add(30*time.Second), "y"))
	list := slices.Clone(r.servers)
	slices.Reverse(list)
	p := r.processWith(list)
	p.Take("before", "x", time.Minute)
	p.settle()
	answered := make(chan struct{})
	p.wires[2].on(script.Vote, func(send func() error) error {
		defer close(answered)
		return send()
	})
	for _, w := range p.wires[:2] {
		w.on(script.Vote, func(send func() error) error {
			<-answered
			<-time.After(time.Millisecond)
			return send()
		})
	}
	_, err = p.Try("a", "x", time.Minute)
	require.ErrorIs(t, err, abstractions.ErrHeld)
}
