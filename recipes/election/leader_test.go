package election

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestFollowersSeeWhoLeads(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		nobody, err := Current(t.Context(), s.watcher, name)
		require.NoError(t, err)
		require.False(t, nobody.Elected())
		require.Equal(t, Leader{}, nobody)

		a := s.start("a", Options{Lease: leasing.AcquireOptions{Metadata: map[string]string{"url": "http://10.0.0.5:8080"}}})
		b := s.start("b", Options{})
		leader, err := b.Leader(t.Context())
		require.NoError(t, err)
		require.True(t, leader.Elected())
		require.Equal(t, "a", leader.Owner)
		require.Equal(t, s.record().Token, leader.Token)
		require.Equal(t, "http://10.0.0.5:8080", leader.Metadata["url"])
		require.False(t, leader.ElectedAt.IsZero())

		require.NoError(t, b.Resign(t.Context()))
		require.NoError(t, a.Resign(t.Context()))
		nobody, err = Current(t.Context(), s.watcher, name)
		require.NoError(t, err)
		require.Equal(t, Leader{}, nobody, "the last leader's token remains at the backend")
	})
}

func TestCurrentReportsWhatItCannotTell(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		refused := errors.New("connection refused")
		s.provider.Use(leasingtest.Fail(leasingtest.Inspect, 1, refused))
		_, err := Current(t.Context(), s.watcher, name)
		require.ErrorIs(t, err, refused)
		_, err = Current(t.Context(), s.watcher, "")
		require.ErrorIs(t, err, leasing.ErrInvalid)
		_, err = Current(t.Context(), nil, name)
		require.ErrorIs(t, err, leasing.ErrInvalid)
	})
}

// guess is a provider that reports every holder as unconfirmed.
type guess struct{ *leasingtest.Provider }

func (g guess) Inspect(ctx context.Context, req abstractions.InspectRequest) (leasing.Record, error) {
	r, err := g.Provider.Inspect(ctx, req)
	r.Unconfirmed = true
	return r, err
}

func TestAGuessIsNoLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := leasingtest.NewManagerOn(t, guess{leasingtest.NewProvider()}, leasing.Options{})
		lease, err := m.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		leader, err := Current(t.Context(), m, name)
		require.NoError(t, err)
		require.Equal(t, Leader{}, leader)
		require.NoError(t, lease.Release(t.Context()))
	})
}

func TestWatchYieldsEachChangeOnce(t *testing.T) {
	withFixture(t, func(t *testing.T, s *fixture) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		seen := make(chan string, 9)
		over := make(chan struct{})
		go func() {
			defer close(over)
			for leader, err := range Watch(ctx, s.watcher, name, time.Second) {
				if err != nil {
					seen <- leader.Owner + ": " + errors.Unwrap(err).Error()
					continue
				}
				seen <- leader.Owner
			}
		}()
		require.Empty(t, receive(t, seen), "nobody yet")
		a := s.start("a", Options{})
		require.Equal(t, "a", receive(t, seen))
		time.Sleep(time.Minute)
		require.Empty(t, seen, "nothing has changed")

		b := s.start("b", Options{})
		a.cancel(nil)
		require.Equal(t, "b", receive(t, seen))

		remove := s.provider.Use(leasingtest.Fail(leasingtest.Inspect, leasingtest.Always, errors.New("connection refused")))
		require.Equal(t, "b: connection refused", receive(t, seen))
		time.Sleep(time.Minute)
		require.Empty(t, seen, "one error for the whole failure")
		remove()
		require.Equal(t, "b", receive(t, seen))
		require.True(t, b.IsLeader())
		cancel()
		<-over
	})
}

func TestWatchEndsWhereAskingCannotHelp(t *testing.T) {
	manager, _ := leasingtest.NewManager(t, leasing.Options{})
	require.NoError(t, manager.Close(t.Context()))
	count := 0
	for _, err := range Watch(t.Context(), manager, name, 0) {
		require.ErrorIs(t, err, leasing.ErrClosed)
		count++
	}
	require.Equal(t, 1, count)
}

func TestWatchEndsWithItsLoop(t *testing.T) {
	manager, provider := leasingtest.NewManager(t, leasing.Options{})
	for range Watch(t.Context(), manager, name, 0) {
		break
	}
	require.Equal(t, 1, provider.Count(leasingtest.Inspect))
}

// A leader that publishes its address later keeps its token.
func TestWatchYieldsOtherMetadataOfOneLeader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		manager, _ := leasingtest.NewManager(t, leasing.Options{})
		lease, err := manager.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		var seen []map[string]string
		for leader, err := range Watch(ctx, manager, name, time.Second) {
			require.NoError(t, err)
			seen = append(seen, leader.Metadata)
			require.NoError(t, lease.SetMetadata(t.Context(), map[string]string{"url": "here"}))
		}
		require.NoError(t, lease.Release(t.Context()))
		require.Len(t, seen, 2)
		require.Equal(t, map[string]string{"url": "here"}, seen[1])
	})
}
