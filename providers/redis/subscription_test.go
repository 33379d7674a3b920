package redislease

import (
	"testing"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/stretchr/testify/require"
)

// drain drops a pending wake-up of the waiter.
func (s *waitingClaim) drain() {
	select {
	case <-s.wakeups:
	default:
	}
}

func (b *bed) subscribers() int64 {
	b.t.Helper()
	all, err := b.admin.PubSubChannels(b.t.Context(), "*").Result()
	require.NoError(b.t, err)
	return int64(len(all))
}

func TestTrap_T32_ASubscriptionThatWasCutIsMadeAgainAndAllAreWoken(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	b.Take("n", "holder", time.Minute)
	other, _ := b.process()
	claims := []*waitingClaim{b.join(b.Provider, "n", "w0"), b.join(b.Provider, "n", "w1"), b.join(other, "n", "w2")}
	for range 3 {
		for _, s := range claims {
			s.drain()
		}
		killed, err := b.admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Int()
		require.NoError(t, err)
		require.Equal(t, 2, killed)
		for _, s := range claims {
			s.awaitWakeup()
			_, err := s.ask()
			require.ErrorIs(t, err, abstractions.ErrHeld)
		}
		require.Len(t, b.waitList("n"), 3)
	}
	b.release("n", "holder")
	for _, s := range claims {
		s.acquireServed()
		b.release("n", s.id)
	}
}

// If a waiter misses the wake-up of a release because the subscription is down, it is woken once
// the subscription is back.
func TestTrap_T32_AReleaseDuringAnOutageIsNotMissed(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{Persist: true})
	b.Take("n", "holder", time.Minute)
	s := b.join(b.Provider, "n", "w")
	require.NoError(t, b.admin.Do(t.Context(), "CLIENT", "KILL", "TYPE", "pubsub").Err())
	b.release("n", "holder") // its wake-up may be lost
	s.acquireServed()

	s = b.join(b.Provider, "n", "w2")
	b.server.Restart()
	b.awaitReconnect()
	b.release("n", "w")
	s.awaitWakeup()
	b.eventually(func() bool {
		_, err := s.ask()
		return err == nil
	})
}

func TestOneProcessHasOneSubscription(t *testing.T) {
	t.Parallel()
	b := newBed(t, redistest.Options{})
	require.Zero(t, b.subscribers(), "none before somebody waits")
	for _, name := range []string{"a", "b", "c", "d"} {
		b.Take(name, "holder", time.Minute)
		b.join(b.Provider, name, "w")
	}
	require.EqualValues(t, 1, b.subscribers())
	require.NoError(t, b.Close())
	b.eventually(func() bool { return b.subscribers() == 0 })
}
