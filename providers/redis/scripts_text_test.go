package redislease

import (
	"strings"
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/failure"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/stretchr/testify/require"
)

// Somebody deletes a name, or it is forgotten, and its queue stays. The next release wakes
// the one who waits.
func TestTrap_T32_AQueueOutlivesItsName(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "a", time.Minute)
	waiter, _ := b.process()
	s := b.join(waiter, "n", "w")
	drain(s.hints)
	b.forget("n")
	next := b.Take("n", "b", time.Minute)
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

// A server that has just been switched on may not know the time yet. Its milliseconds have
// fewer digits, so they can't be compared with those that are stored.
func TestTrap_T54_AServerWithoutATimeGrantsNothing(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	k := b.keys("n")
	const time1970 = "{'1000', '5'}"
	text := strings.Replace(script.Acquire.Text, "redis.pcall('TIME')", time1970, 1)
	require.Contains(t, text, time1970)
	err := b.admin.Eval(t.Context(), text, []string{k.Name, k.Queue}, "0", "", "a", "60000", "120000", "me\n", "").Err()
	require.ErrorIs(t, failure.Of(err), abstractions.ErrThrottled)
	require.False(t, b.exists(k.Name))
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
			_, err := p.Acquire(t.Context(), redistest.Wish("n", "a", time.Minute))
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
			b.Take("n", next, time.Minute)
			b.release("n", next)
			last.served()
		})
	}
}

func TestATokenThatNobodyHasIsLost(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	g := b.Take("n", "a", time.Minute)
	for _, token := range []int64{-1, 0, 1, g.Token - 1} {
		g.Token = token
		redistest.Lost(t, b.renew(g, time.Minute), abstractions.LostTaken)
	}
}
