package leasing_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

func TestCloseWaitsForHolders(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		closed := make(chan error, 1)
		go func() { closed <- m.Close(context.Background()) }()
		ended(t, l, time.Second)
		require.ErrorIs(t, l.Err(), leasing.ErrReleased)
		require.ErrorIs(t, l.Err(), leasing.ErrClosed)
		time.Sleep(10 * time.Minute) // the holder winds its work up
		require.Positive(t, p.Count(leasingtest.Renew), "renewals go on")
		require.Empty(t, closed)
		require.NoError(t, l.Release(t.Context()))
		require.NoError(t, <-closed)
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

func TestCloseLeavesWhatIsInUseToRunOut(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, p *leasingtest.Provider) {
		var told journal
		l := acquire(t, m, &leasing.AcquireOptions{Observer: told.observe})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		start := time.Now()
		err := m.Close(ctx)
		require.Equal(t, 5*time.Second, time.Since(start))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorContains(t, err, "1 leases were still in use and are left to run out: "+name)
		var left *leasing.CloseError
		require.ErrorAs(t, err, &left)
		require.Equal(t, []string{name}, left.InUse)
		require.Zero(t, p.Count(leasingtest.Release), "released under its holder")
		lost := told.only(leasing.EventLost)
		require.Len(t, lost, 1)
		require.Equal(t, leasing.LostClosed, lost[0].Reason)
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.True(t, record.Held)
		require.ErrorIs(t, l.Release(t.Context()), leasing.ErrLost, "the holder is told")
		require.Equal(t, 1, p.Count(leasingtest.Release), "and the name freed, now that it is not in use")
	})
}

func TestTrap_T39_CloseAtAnyTime(t *testing.T) {
	t.Run("twice and together", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, _ *leasingtest.Provider) {
			var all sync.WaitGroup
			for range 10 {
				all.Go(func() {
					if err := m.Close(context.Background()); err != nil {
						t.Error(err)
					}
				})
			}
			all.Wait()
			require.NoError(t, m.Close(t.Context()))
		})
	})
	t.Run("during waits", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, p *leasingtest.Provider) {
			l := acquire(t, m, nil)
			waits := make(chan error, 10)
			for range 10 {
				go func() {
					_, err := m.Acquire(context.Background(), name, nil)
					waits <- err
				}()
			}
			synctest.Wait()
			closed := make(chan error, 1)
			go func() { closed <- m.Close(context.Background()) }()
			for range 10 {
				require.ErrorIs(t, <-waits, leasing.ErrClosed)
			}
			require.NoError(t, l.Release(t.Context()))
			require.NoError(t, <-closed)
		})
	})
	t.Run("during a request", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, p *leasingtest.Provider) {
			p.Use(leasingtest.Delay(leasingtest.Acquire, 1, time.Second))
			got := make(chan error, 1)
			go func() {
				_, err := m.Acquire(context.Background(), name, nil)
				got <- err
			}()
			synctest.Wait()
			require.NoError(t, m.Close(t.Context()))
			require.ErrorIs(t, <-got, leasing.ErrClosed)
			record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
			require.NoError(t, err)
			require.False(t, record.Held, "what came too late was given back")
		})
	})
	t.Run("during a hung renewal", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, p *leasingtest.Provider) {
			p.Use(leasingtest.Hang(leasingtest.Renew, leasingtest.Always))
			l := acquire(t, m, nil)
			time.Sleep(19 * time.Second)
			require.NoError(t, l.Release(t.Context()))
			start := time.Now()
			require.NoError(t, m.Close(t.Context()))
			require.Zero(t, time.Since(start))
		})
	})
	t.Run("with a context that has ended", func(t *testing.T) {
		virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, _ *leasingtest.Provider) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, m.Close(ctx), "nothing was in use")
		})
	})
}

func TestClosedManagerRefuses(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, p *leasingtest.Provider) {
		require.NoError(t, m.Close(t.Context()))
		_, err := m.Acquire(t.Context(), name, nil)
		require.ErrorIs(t, err, leasing.ErrClosed)
		_, err = m.TryAcquire(t.Context(), name, nil)
		require.ErrorIs(t, err, leasing.ErrClosed)
		_, err = m.Inspect(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrClosed)
		_, err = m.Break(t.Context(), name, nil)
		require.ErrorIs(t, err, leasing.ErrClosed)
		for _, err := range m.List(t.Context(), nil) {
			require.ErrorIs(t, err, leasing.ErrClosed)
		}
		health := m.Health(t.Context())
		require.Equal(t, leasing.Unhealthy, health.Status)
		require.True(t, health.Closed)
		require.Empty(t, p.Calls())
	})
}

func TestCloseTriesPendingCleanUpsOnceMore(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, p *leasingtest.Provider) {
		lost := p.Use(leasingtest.LoseReply(leasingtest.Acquire, 1, errNetwork))
		down := p.Use(leasingtest.Fail(leasingtest.Release, leasingtest.Always, errNetwork))
		_, err := m.TryAcquire(t.Context(), name, &leasing.AcquireOptions{TTL: time.Hour})
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		time.Sleep(5 * time.Minute)
		lost()
		down()
		require.NoError(t, m.Close(t.Context()))
		record, err := p.Inspect(t.Context(), abstractions.InspectRequest{Name: name})
		require.NoError(t, err)
		require.False(t, record.Held)
	})
}

func TestTrap_T40_NothingIsRenewedThatNobodyOwns(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m leasing.Manager, p *leasingtest.Provider) {
		for i := range 20 {
			l, err := m.Acquire(t.Context(), fmt.Sprintf("a/b/%d", i), &leasing.AcquireOptions{TTL: time.Second})
			require.NoError(t, err)
			if i%2 == 0 {
				leasingtest.Lose(t, p, l, leasing.LostTaken)
			} else {
				require.NoError(t, l.Release(t.Context()))
			}
		}
		renewed := p.Count(leasingtest.Renew)
		time.Sleep(time.Hour)
		require.Equal(t, renewed, p.Count(leasingtest.Renew))
		require.Zero(t, m.Health(t.Context()).Held)
	})
}
