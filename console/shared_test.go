package console

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A slow list is read less often, so that reading the list keeps the backend busy for at most a
// tenth of the time.
func TestASlowListIsReadRarely(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		s := newShared(t.Context(), 2*time.Second, func(context.Context) (listing, error) {
			reads++
			time.Sleep(time.Second)
			return listing{}, nil
		})
		for end := time.Now().Add(100 * time.Second); time.Now().Before(end); {
			_, err := s.get(t.Context())
			require.NoError(t, err)
			time.Sleep(time.Second)
		}
		require.InDelta(t, 10, reads, 1)
	})
}

// Viewers that arrive during a read wait for that read. A viewer that leaves does not end the
// read.
func TestAReadIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reads := 0
		s := newShared(t.Context(), 2*time.Second, func(ctx context.Context) (listing, error) {
			reads++
			time.Sleep(time.Second)
			return listing{leases: make([]lease, 3)}, ctx.Err()
		})
		leaves, leave := context.WithCancel(t.Context())
		go s.get(leaves)
		synctest.Wait()
		leave()
		got := make(chan *reading)
		for range 10 {
			go func() {
				reading, _ := s.get(t.Context())
				got <- reading
			}()
		}
		for range 10 {
			require.Len(t, (<-got).leases, 3)
		}
		require.Equal(t, 1, reads)
	})
}

// Close waits for a read under way, and no read begins after Close.
func TestNoReadAfterTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		end, stop := context.WithCancel(t.Context())
		reads := 0
		s := newShared(end, 2*time.Second, func(ctx context.Context) (listing, error) {
			reads++
			<-ctx.Done()
			time.Sleep(time.Millisecond)
			return listing{}, ctx.Err()
		})
		go s.get(t.Context())
		synctest.Wait()
		stop()
		s.wait()
		s.mu.Lock()
		underWay := s.underWay
		s.mu.Unlock()
		require.Nil(t, underWay)
		time.Sleep(time.Hour)
		_, err := s.get(t.Context())
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, 1, reads)
	})
}
