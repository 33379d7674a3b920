package redislease

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

// Somebody deletes a name, or it is forgotten, and its queue stays. The next release wakes
// the one who waits.
func TestTrap_T32_AQueueOutlivesItsName(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.acquire("n", "a", time.Minute)
	waiter, _ := b.process()
	s := b.join(waiter, "n", "w")
	drain(s.hints)
	b.forget("n")
	next := b.acquire("n", "b", time.Minute)
	b.release("n", "b")
	g := s.served()
	require.Greater(t, g.Token, next.Token)
}

// drain takes a hint that there is already, of the subscription's beginning say.
func drain(hints <-chan struct{}) {
	select {
	case <-hints:
	default:
	}
}

// A claim was asked for with a long TTL, and is asked for again with a short one. A node that
// takes the token of the second attempt keeps the lease for as long as it lasts.
func TestTrap_T17_RedlockNodeKeepsALeaseThatIsConfirmed(t *testing.T) {
	t.Parallel()
	r := newRing(t, 3, Options{MaxTTL: 10 * time.Hour})
	p := r.process()
	k := r.keys("a")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	s := voted(20, "x", 7, 7, 0, 10)
	s.till = time.Now().Add(5 * time.Hour).UnixMilli()
	require.NoError(t, r.admins[0].Set(ctx, k.name, s.String(), 6*time.Hour).Err())
	a := &attempt{tally: tally{try: 7}, keys: naming{prefix: DefaultPrefix, retention: time.Hour}.keys("a"), claim: claim{id: "x", ttl: time.Minute}}
	op := a.confirmOp(30)
	require.NoError(t, p.redlock.nodes[0].do(ctx, &op))
	require.NoError(t, op.reply.done())
	require.EqualValues(t, 30, r.fence(0, "a"))
	kept, err := r.admins[0].PTTL(ctx, k.name).Result()
	require.NoError(t, err)
	require.GreaterOrEqual(t, kept, r.left(0, "a")-time.Second)
}

// A server that has just been switched on may not know the time yet. Its milliseconds have
// fewer digits, so they can't be compared with those that are stored.
func TestTrap_T54_AServerWithoutATimeGrantsNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	k := b.keys("n")
	const time1970 = "{'1000', '5'}"
	text := strings.Replace(acquireScript.text, "redis.pcall('TIME')", time1970, 1)
	require.Contains(t, text, time1970)
	err := b.admin.Eval(t.Context(), text, []string{k.name, k.queue}, "0", "", "a", "60000", "120000", "me\n", "").Err()
	require.ErrorIs(t, failure(err), abstractions.ErrThrottled)
	require.False(t, b.exists(k.name))
}

// A process that may not look at the queue ends a lease. The next release, by one that may,
// wakes those who wait.
func TestTrap_T32_WhoMayNotWakeLeavesItToOthers(t *testing.T) {
	t.Parallel()
	for _, missing := range []string{"+zpopmin", "+zrange"} {
		t.Run(missing, func(t *testing.T) {
			user := strings.ReplaceAll(ACLRules, missing+" ", "")
			b := newBed(t, redistest.Options{Users: []string{"app on >secret " + user, "default on nopass ~* &* +@all"}})
			p := openTest(t, Options{URL: asApp(b.server)})
			_, err := p.Acquire(t.Context(), wish("n", "a", time.Minute))
			require.NoError(t, err)
			waiter, _ := b.process()
			seats := []*seat{b.join(waiter, "n", "w1"), b.join(waiter, "n", "w2")}
			for _, s := range seats {
				drain(s.hints)
			}
			require.NoError(t, p.Release(t.Context(), abstractions.ReleaseRequest{Name: "n", ID: "a"}))
			next, last := "other", seats[0]
			if missing == "+zrange" {
				next, last = "w1", seats[1]
			}
			b.acquire("n", next, time.Minute)
			b.release("n", next)
			last.served()
		})
	}
}

func TestATokenThatNobodyHasIsLost(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	g := b.acquire("n", "a", time.Minute)
	for _, token := range []int64{-1, 0, 1, g.Token - 1} {
		g.Token = token
		requireLost(t, abstractions.LostTaken, b.renew(g, time.Minute))
	}
}
