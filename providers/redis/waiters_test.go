package redislease

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/node"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

// waitingClaim is a claim that waits for a name through a provider.
type waitingClaim struct {
	b       *bed
	p       *Provider
	name    string
	id      string
	wakeups <-chan struct{}
	leave   context.CancelFunc
}

// channel returns the channel on which the provider listens.
func (b *bed) channel() string {
	b.t.Helper()
	all, err := b.admin.PubSubChannels(b.t.Context(), "*").Result()
	require.NoError(b.t, err)
	require.Len(b.t, all, 1)
	return all[0]
}

// register makes a claim a waiter, before it sends an acquire.
func (b *bed) register(p *Provider, name, id string) *waitingClaim {
	b.t.Helper()
	ctx, leave := context.WithCancel(context.Background())
	b.t.Cleanup(leave)
	w, err := p.Wait(ctx, abstractions.WaitRequest{Name: name, ID: id})
	require.NoError(b.t, err)
	return &waitingClaim{b: b, p: p, name: name, id: id, wakeups: w.C, leave: leave}
}

// join makes a claim wait in the queue of a held name.
func (b *bed) join(p *Provider, name, id string) *waitingClaim {
	b.t.Helper()
	s := b.register(p, name, id)
	_, err := s.ask()
	require.ErrorIs(b.t, err, abstractions.ErrHeld)
	require.Contains(b.t, b.waitList(name), id)
	require.Positive(b.t, b.left(b.keys(name).Queue), "not for ever")
	return s
}

func (s *waitingClaim) ask() (abstractions.Grant, error) {
	return s.p.Acquire(s.b.t.Context(), redistest.AcquireRequest(s.name, s.id, time.Minute))
}

func (s *waitingClaim) awaitWakeup() {
	s.b.t.Helper()
	select {
	case <-s.wakeups:
	case <-time.After(time.Minute):
		require.Fail(s.b.t, "no wake-up", s.id)
	}
}

// acquireServed acquires the name after a wake-up, and waits out a reservation.
func (s *waitingClaim) acquireServed() abstractions.Grant {
	s.b.t.Helper()
	s.awaitWakeup()
	for {
		g, err := s.ask()
		var held *abstractions.HeldError
		if !errors.As(err, &held) {
			require.NoError(s.b.t, err)
			s.leave()
			return g
		}
		require.False(s.b.t, held.Holder.Held, "reserved at most")
		require.Positive(s.b.t, held.RetryAfter)
		<-time.After(held.RetryAfter)
	}
}

// reservedFor returns the ID for which a name is reserved.
func (b *bed) reservedFor(name string) string {
	b.t.Helper()
	if s := b.stored(name); s.State == "R" {
		return s.ID
	}
	return ""
}

// Each hung waiter delays those behind it by one reservation, even if several in a row hang: the
// others are woken in their turn. If many waiters hang, the release wakes only some of the others,
// and a later waiter may be served before an earlier waiter.
func TestTrap_T78_WaitersThatHangCostOneReservationEach(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	for hung := 1; hung <= 4; hung++ {
		name := fmt.Sprint("n", hung)
		g := b.Take(name, "holder", time.Minute)
		var claims []*waitingClaim
		for n := range 6 {
			p, _ := b.process()
			claims = append(claims, b.join(p, name, fmt.Sprint("w", n)))
		}
		b.release(name, g.ID)
		next := claims[hung]
		if hung == 4 {
			next = claims[5]
		}
		redistest.AcquireOnWakeups(t, next.wakeups, func() error { return second(next.ask()) })
		for _, s := range claims {
			s.leave()
		}
	}
}

// The same holds when an infinite lease is broken and then runs out, although running out wakes no waiter.
func TestTrap_T78_WaitersThatHangAtABreakCostOneReservationEach(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	require.NoError(t, b.renew(b.Take("n", "holder", time.Minute), abstractions.Infinite))
	var claims []*waitingClaim
	for n := range 3 {
		p, _ := b.process()
		claims = append(claims, b.join(p, "n", fmt.Sprint("w", n)))
	}
	require.NoError(t, claims[0].p.Close(), "without a word to Redis")
	_, err := b.Break(t.Context(), abstractions.BreakRequest{Name: "n", Grace: 300 * time.Millisecond})
	require.NoError(t, err)
	claims[1].awaitWakeup()
	require.Equal(t, []string{"w1", "w2"}, b.waitList("n"))
	redistest.AcquireOnWakeups(t, claims[2].wakeups, func() error { return second(claims[2].ask()) })
}

// On a Cluster, killed processes look like hung ones.
func TestTrap_T78_WaitersThatWereKilledOnAClusterCostOneReservationEach(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, 3)
	var processes []*Provider
	for range 5 {
		processes = append(processes, openTest(t, Options{URL: clusterURL(cluster)}))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g, err := processes[0].Acquire(t.Context(), redistest.AcquireRequest("n", "holder", time.Minute))
	require.NoError(t, err)
	var wakeups []<-chan struct{}
	for i, p := range processes[1:] {
		id := fmt.Sprint("w", i)
		w, err := p.Wait(ctx, abstractions.WaitRequest{Name: "n", ID: id})
		require.NoError(t, err)
		_, err = p.Acquire(t.Context(), redistest.AcquireRequest("n", id, time.Minute))
		require.ErrorIs(t, err, abstractions.ErrHeld)
		wakeups = append(wakeups, w.C)
	}
	for _, p := range processes[1:4] {
		require.NoError(t, p.Close(), "without a word to Redis")
	}
	require.NoError(t, processes[0].Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: g.ID}))
	redistest.AcquireOnWakeups(t, wakeups[3], func() error {
		return second(processes[4].Acquire(t.Context(), redistest.AcquireRequest("n", "w3", time.Minute)))
	})
}

// A waiter that acquires the free name leaves the queue, even if the name's record was
// forgotten before the queue.
func TestAWaiterThatGetsAForgottenNameLeavesTheQueue(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "holder", time.Minute)
	first, second := b.join(b.Provider, "n", "w1"), b.join(b.Provider, "n", "w2")
	redistest.DropLease(t, b.admin, b.keys("n").Name)
	_, err := first.ask()
	require.NoError(t, err)
	require.Equal(t, []string{"w2"}, b.waitList("n"))
	b.release("n", "w1")
	second.acquireServed()
}

func TestWaitersOfManyProcessesAreServedInOrder(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	var processes []*Provider
	for range 3 {
		p, _ := b.process()
		processes = append(processes, p)
	}
	g := b.Take("n", "holder", time.Minute)
	var claims []*waitingClaim
	for n := range 9 {
		claims = append(claims, b.join(processes[n%3], "n", fmt.Sprint("w", n)))
	}
	require.Equal(t, []string{"w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8"}, b.waitList("n"))
	_, err := claims[4].ask()
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Equal(t, "w4", b.waitList("n")[4], "who asks again keeps its place")
	for _, s := range claims {
		b.release("n", g.ID)
		require.Equal(t, s.id, b.reservedFor("n"))
		_, err := b.Try("n", "stranger", time.Minute)
		var held *abstractions.HeldError
		if errors.As(err, &held) { // in time to see the reservation
			require.False(t, held.Holder.Held)
			require.Equal(t, g.Token, held.Holder.Token)
			require.LessOrEqual(t, held.RetryAfter, 200*time.Millisecond)
		}
		next := s.acquireServed()
		require.Greater(t, next.Token, g.Token)
		require.Equal(t, "H", b.stored("n").State)
		g = next
	}
	require.False(t, b.exists(b.keys("n").Queue), "nobody waits")
	b.release("n", g.ID)
	require.Equal(t, "F", b.stored("n").State)
}

func TestAReservationRefusesOthersForAWhile(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(b *bed){
		"release": func(b *bed) { b.release("n", "holder") },
		"break":   func(b *bed) { b.breakNow("n") },
	} {
		t.Run(how, func(t *testing.T) {
			b := newBed(t, redistest.Options{})
			g := b.Take("n", "holder", time.Minute)
			s := b.join(b.Provider, "n", "w")
			end(b)
			r, err := b.Inspect(t.Context(), abstractions.InspectRequest{Name: "n"})
			require.NoError(t, err)
			require.False(t, r.Held, "a reservation is no grant")
			s.awaitWakeup()
			require.Equal(t, "w", b.reservedFor("n"))
			b.eventually(func() bool { // w sends no acquire
				barged, err := b.Try("n", "stranger", time.Minute)
				require.True(t, err == nil || errors.Is(err, abstractions.ErrHeld), err)
				return err == nil && barged.Token > g.Token
			})
			_, err = s.ask()
			require.ErrorIs(t, err, abstractions.ErrHeld)
			require.Equal(t, []string{"w"}, b.waitList("n"), "it waits again")
		})
	}
}

func TestWhoGetsTheNameWithoutATurnLeavesTheQueue(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	g := b.Take("n", "holder", 2*time.Second) // enough for some requests on a busy machine
	s, other := b.join(b.Provider, "n", "w"), b.join(b.Provider, "n", "other")
	b.waitForExpiry("n")
	next, err := other.ask()
	require.NoError(t, err, "it has expired: nobody's turn")
	require.Greater(t, next.Token, g.Token)
	require.Equal(t, []string{"w"}, b.waitList("n"))
	b.release("n", "other")
	s.acquireServed()
	require.False(t, b.exists(b.keys("n").Queue))
}

func TestAReservationFromTheFutureIsNone(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.put("n", redistest.Reserved(7, time.Now().Add(time.Hour), "w", "a"))
	b.Take("n", "b", time.Minute)

}

// unsubscribe ends the subscription of a process, like a kill. The claims of the process stay in the queue.
func (b *bed) unsubscribe(p *Provider) {
	b.t.Helper()
	channel := p.topology.(*node.Single).Waiters.Channel
	require.NoError(b.t, p.Close())
	b.eventually(func() bool { return b.admin.PubSubNumSub(b.t.Context(), channel).Val()[channel] == 0 })
}

func TestDeadProcessesAreSkippedAtOnce(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "holder", time.Minute)
	for n := range 3 {
		dead, _ := b.process()
		b.join(dead, "n", fmt.Sprint("dead", n))
		b.unsubscribe(dead)
	}
	s := b.join(b.Provider, "n", "alive")
	b.release("n", "holder")
	require.Equal(t, "alive", b.reservedFor("n"))
	s.acquireServed()
	require.False(t, b.exists(b.keys("n").Queue))
}

// Once Redis has noticed the death of a process, its claims are no longer listed as waiters.
func TestTheDeadAreNotListed(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "holder", time.Minute)
	dead, _ := b.process()
	b.join(dead, "n", "dead1")
	b.join(b.Provider, "n", "alive")
	b.join(dead, "n", "dead2")
	listed := func() (claims []abstractions.Fingerprint) {
		all, err := b.Provider.Waiters(t.Context(), abstractions.WaitersRequest{Name: "n"})
		require.NoError(t, err)
		for _, w := range all {
			claims = append(claims, w.Fingerprint)
		}
		return claims
	}
	alive := abstractions.FingerprintOf("alive")
	require.Equal(t, []abstractions.Fingerprint{abstractions.FingerprintOf("dead1"), alive, abstractions.FingerprintOf("dead2")}, listed())
	b.unsubscribe(dead)
	b.eventually(func() bool { return slices.Equal(listed(), []abstractions.Fingerprint{alive}) })
	require.Len(t, b.waitList("n"), 3, "the question takes nobody's place")
}

func TestAFrozenProcessCostsOneGrace(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "holder", time.Minute)
	frozen, _ := b.process()
	b.join(frozen, "n", "frozen") // and sends no acquire after its wake-up
	dead, _ := b.process()
	b.join(dead, "n", "dead")
	b.unsubscribe(dead)
	s := b.join(b.Provider, "n", "alive")
	third := b.join(b.Provider, "n", "third")
	b.release("n", "holder")
	require.Equal(t, "frozen", b.reservedFor("n"))
	require.Equal(t, []string{"alive", "third"}, b.waitList("n"), "the dead one before them is gone")
	s.acquireServed()
	require.Equal(t, []string{"third"}, b.waitList("n"))
	b.release("n", "alive")
	third.acquireServed()
}

func TestWhoLeavesHandsItsTurnOn(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "holder", time.Minute)
	first, second := b.join(b.Provider, "n", "first"), b.join(b.Provider, "n", "second")
	third, fourth := b.join(b.Provider, "n", "third"), b.join(b.Provider, "n", "fourth")
	second.leave()
	b.eventually(func() bool { return len(b.waitList("n")) == 3 })
	b.release("n", "holder")
	first.awaitWakeup()
	first.leave()
	b.eventually(func() bool { return b.reservedFor("n") == "third" })
	g := third.acquireServed()
	fourth.leave()
	b.eventually(func() bool { return !b.exists(b.keys("n").Queue) })
	require.NoError(t, b.renew(g, time.Minute), "who leaves disturbs no holder")
}

// If a waiter leaves while its acquire is in flight, that acquire puts the claim back into the queue.
func TestTheTurnOfWhoLeftDuringItsRequestIsPassedOn(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "holder", time.Minute)
	late := b.join(b.Provider, "n", "late")
	late.leave()
	b.eventually(func() bool { return !b.exists(b.keys("n").Queue) })
	c := script.NewClaim(redistest.AcquireRequest("n", "late", time.Minute))
	c.Place = script.Place(b.channel(), "late")
	op := b.keys("n").Acquire(c)
	d := node.New(b.admin, true, script.Naming{})
	defer d.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, d.Do(ctx, op).Err)
	s := b.join(b.Provider, "n", "next")
	require.Equal(t, []string{"late", "next"}, b.waitList("n"))
	b.release("n", "holder")
	b.eventually(func() bool { return b.reservedFor("n") == "next" })
	s.acquireServed()
	require.False(t, b.exists(b.keys("n").Queue))
}

func TestARegistrationTakesTheEarliersPlace(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "holder", time.Minute)
	first := b.join(b.Provider, "n", "w")
	second := b.register(b.Provider, "n", "w")
	b.join(b.Provider, "n", "other")
	first.leave()
	_, err := second.ask()
	require.ErrorIs(t, err, abstractions.ErrHeld)
	require.Equal(t, []string{"w", "other"}, b.waitList("n"))
	second.leave()
	b.eventually(func() bool { return len(b.waitList("n")) == 1 })

	// The same holds if the second registration never sends an acquire.
	first = b.join(b.Provider, "n", "x")
	second = b.register(b.Provider, "n", "x")
	second.leave()
	first.leave()
	b.eventually(func() bool { return len(b.waitList("n")) == 1 })
}

func TestNonsenseOnTheChannelIsIgnored(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "holder", time.Minute)
	s := b.join(b.Provider, "n", "w")
	channel := b.channel()
	for _, text := range []string{
		"", " ", "w", "w ", "w x", "w x leasing:{n}", "unknown 0", "unknown 0 ", "unknown 0 }", "unknown 0 foreign",
		"unknown 0 leasing:{n}", "unknown 200 leasing:{n}", "w 99999999999999999999 leasing:{n}", strings.Repeat("x", 100_000),
	} {
		require.NoError(t, b.admin.Publish(t.Context(), channel, text).Err())
	}
	require.EqualValues(t, 1, b.admin.Publish(t.Context(), channel, "w 50 leasing:{n}").Val())
	s.awaitWakeup()
	require.NoError(t, b.admin.Publish(t.Context(), channel, "w -5 leasing:{n}").Err())
	s.awaitWakeup()
	_, err := s.ask()
	require.ErrorIs(t, err, abstractions.ErrHeld, "a wake-up is no grant")
	b.release("n", "holder")
	s.acquireServed()
	size, err := b.admin.DBSize(t.Context()).Result()
	require.NoError(t, err)
	require.EqualValues(t, 1, size)
}

func TestHandingOverCostsFewCommands(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "w0", time.Minute)
	const rounds = 20
	var claims []*waitingClaim
	for n := 1; n <= rounds; n++ {
		claims = append(claims, b.join(b.Provider, "n", fmt.Sprint("w", n)))
	}
	before := b.recorder.sent.Load()
	for n, s := range claims {
		b.release("n", fmt.Sprint("w", n))
		s.awaitWakeup()
		_, err := s.ask()
		require.NoError(t, err)
	}
	require.LessOrEqual(t, b.recorder.sent.Load()-before, int64(2*rounds+2), "a release and an acquire each, and a script sent twice")
}
