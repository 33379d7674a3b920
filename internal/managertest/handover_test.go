package managertest_test

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/leasingtest"
)

// twoProcesses runs a test with two managers over one provider.
func twoProcesses(t *testing.T, options leasing.Options, test func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider)) {
	t.Helper()
	virtual(t, options, func(t *testing.T, giver *leasing.Manager, p *leasingtest.Provider) {
		test(t, giver, leasingtest.NewManagerOn(t, p, options), p)
	})
}

// stored returns the Handover that a process stores to adopt its lease after a crash.
func stored(l *leasing.Lease) leasing.Handover {
	return leasing.Handover{Name: l.Name(), ID: l.ID(), Token: l.Token()}
}

func TestHandOverAndAdopt(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		var given, received journal
		defer giver.Subscribe(given.observe)()
		defer receiver.Subscribe(received.observe)()
		mine := acquire(t, giver, &leasing.AcquireOptions{Metadata: labels{"cursor": "7"}})
		time.Sleep(10 * time.Second)

		handover, err := mine.HandOver(t.Context())
		require.NoError(t, err)
		require.ErrorIs(t, mine.Err(), leasing.ErrHandedOver)
		require.ErrorContains(t, context.Cause(mine.Context()), "handed over")
		require.Error(t, mine.Context().Err())
		require.Zero(t, mine.Remaining())
		require.Equal(t, []leasing.EventKind{leasing.EventAcquired, leasing.EventRenewed, leasing.EventHandedOver}, given.kinds())
		require.Zero(t, giver.Health(t.Context()).Held)
		require.NoError(t, giver.Close(t.Context()), "it waits for nobody")

		text, err := json.Marshal(handover)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(text, &handover))
		require.Equal(t, stored(mine), handover)

		before := p.Count(leasingtest.Renew)
		time.Sleep(29 * time.Second)
		require.Equal(t, before, p.Count(leasingtest.Renew), "the giver renews no more")
		theirs, err := receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{})
		require.NoError(t, err, "the last renewal left a whole TTL")
		require.Equal(t, mine.Token(), theirs.Token())
		require.Equal(t, mine.ID(), theirs.ID())
		require.NoError(t, mine.Release(t.Context()), "it is no longer ours to release")
		time.Sleep(time.Hour)
		require.NoError(t, theirs.Err(), "the receiver renews")
		record, err := receiver.Inspect(t.Context(), name)
		require.NoError(t, err)
		require.Equal(t, "7", record.Metadata["cursor"])
		require.Equal(t, leasing.EventAcquired, received.kinds()[0])

		require.NoError(t, theirs.SetMetadata(t.Context(), labels{"cursor": "8"}))
		requireMetadata(t, receiver, theirs, labels{"cursor": "8"}, labels{"cursor": "8"})
		require.NoError(t, theirs.Release(t.Context()))
		next := acquire(t, receiver, nil)
		require.Greater(t, next.Token(), theirs.Token())
	})
}

// Once HandOver has returned, the giver sends nothing more for the lease, even if a
// renewal of the engine was under way.
func TestHandOverWaitsForTheRenewalUnderWay(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, giver, nil)
		p.Use(leasingtest.Delay(leasingtest.Renew, leasingtest.Always, 2*time.Second))
		for p.Count(leasingtest.Renew) == 0 {
			time.Sleep(time.Second)
		}
		began := time.Now()
		handover, err := l.HandOver(t.Context())
		require.NoError(t, err)
		require.Greater(t, time.Since(began), 2*time.Second, "that one was sent too early to be the last")
		require.Equal(t, 2, p.Count(leasingtest.Renew))
		p.Clear()
		adopted, err := receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{})
		require.NoError(t, err)
		require.NoError(t, adopted.Release(t.Context()))
		synctest.Wait()
		require.Equal(t, 3, p.Count(leasingtest.Renew))
	})
}

func TestHandOverWaitsForTheApplicationsRenewal(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		p.Use(leasingtest.Delay(leasingtest.Renew, 1, 2*time.Second))
		go func() { _ = l.Renew(context.Background()) }()
		synctest.Wait()
		began := time.Now()
		_, err := l.HandOver(t.Context())
		require.NoError(t, err)
		require.Equal(t, 2*time.Second, time.Since(began))
	})
}

// A hand-over that fails has no effect: the lease is still held, and its work goes on.
func TestHandOverThatFails(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, giver, nil)
		time.Sleep(time.Second)
		p.Use(leasingtest.Fail(leasingtest.Renew, 1, errNetwork))
		_, err := l.HandOver(t.Context())
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = l.HandOver(ended)
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, l.Err())
		time.Sleep(time.Hour)
		require.NoError(t, l.Err(), "it is still renewed")

		leasingtest.Lose(t, p, l, leasing.LostTaken)
		_, err = l.HandOver(t.Context())
		require.ErrorIs(t, err, leasing.ErrLost)
		l = acquire(t, giver, nil)
		require.NoError(t, l.Release(t.Context()))
		_, err = l.HandOver(t.Context())
		require.ErrorIs(t, err, leasing.ErrReleased)
		l = acquire(t, giver, nil)
		_, err = l.HandOver(t.Context())
		require.NoError(t, err)
		_, err = l.HandOver(t.Context())
		require.ErrorIs(t, err, leasing.ErrHandedOver, "there is one receiver")
	})
}

func TestHandOverWithoutRenewalsLeft(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, giver, &leasing.AcquireOptions{MaxRenewals: 1, NoAutoRenew: true})
		require.NoError(t, l.Renew(t.Context()))
		time.Sleep(20 * time.Second)
		handover, err := l.HandOver(t.Context())
		require.NoError(t, err, "it hands over what is left")
		adopted, err := receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{})
		require.NoError(t, err)
		require.NoError(t, adopted.Release(t.Context()))
	})
}

func TestHandOverInsideDoIsRefused(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		require.NoError(t, m.Do(t.Context(), name, func(ctx context.Context, l *leasing.Lease) error {
			_, err := l.HandOver(ctx)
			requireInvalid(t, err, "lease")
			return ctx.Err()
		}))
		require.Equal(t, 1, p.Count(leasingtest.Release))
	})
}

// A lease that is being released is not handed over, even if it was granted just now.
func TestALeaseThatIsBeingReleasedIsNotHandedOver(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		land, released := make(chan struct{}), make(chan error, 1)
		p.Use(func(_ context.Context, call leasingtest.Call, apply func() error) error {
			if call.Op == leasingtest.Release {
				<-land
			}
			return apply()
		})
		go func() { released <- l.Release(t.Context()) }()
		synctest.Wait()
		_, err := l.HandOver(t.Context())
		require.ErrorIs(t, err, leasing.ErrReleased)
		close(land)
		require.NoError(t, <-released)
	})
}

// While a manager closes, its leases can still be handed over.
func TestHandOverDuringClose(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, giver, nil)
		closed := make(chan error)
		go func() { closed <- giver.Close(context.Background()) }()
		<-l.Done()
		handover, err := l.HandOver(t.Context())
		require.NoError(t, err)
		require.NoError(t, <-closed)
		adopted, err := receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{})
		require.NoError(t, err)
		require.NoError(t, adopted.Release(t.Context()))
	})
}

// Trust counts from the instant before the receiver's own request.
func TestTrap_T01_AdoptCountsTrustFromItsOwnRequest(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, giver, &leasing.AcquireOptions{TTL: time.Hour})
		handover, err := l.HandOver(t.Context())
		require.NoError(t, err)
		remove := p.Use(leasingtest.DelayReply(leasingtest.Renew, 1, 5*time.Second))
		adopted, err := receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{NoAutoRenew: true})
		require.NoError(t, err)
		require.Equal(t, window(30*time.Second)-5*time.Second, adopted.Remaining(), "not the hour of the giver")
		remove()
		start := time.Now()
		require.Equal(t, window(30*time.Second)-5*time.Second, awaitEnd(t, adopted, time.Hour).Sub(start))

		// A grant that arrives after its trust has run out does not count, and nothing is released.
		l = acquire(t, receiver, nil)
		handover, err = l.HandOver(t.Context())
		require.NoError(t, err)
		released := p.Count(leasingtest.Release)
		p.Use(leasingtest.DelayReply(leasingtest.Renew, 1, 31*time.Second))
		_, err = receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{})
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		time.Sleep(time.Minute) // the answer has come
		require.Equal(t, released, p.Count(leasingtest.Release))
	})
}

// adoptionCheck checks that the first renewal of an adopting process carries no State and no metadata.
type adoptionCheck struct {
	*leasingtest.Provider
	t     *testing.T
	first bool
}

func (s *adoptionCheck) As(any) bool { return false }

func (s *adoptionCheck) Renew(ctx context.Context, req abstractions.RenewRequest) (abstractions.Grant, error) {
	if !s.first {
		s.first = true
		require.Nil(s.t, req.State)
		require.Nil(s.t, req.Metadata)
	}
	grant, err := s.Provider.Renew(ctx, req)
	grant.State = "of the latest grant"
	return grant, err
}

// A process can continue with its lease after a crash, if it has stored the ID and the token, and restarts within the TTL.
func TestAdoptAfterACrash(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, _ *leasing.Manager, p *leasingtest.Provider) {
		l, err := giver.Acquire(t.Context(), name)
		require.NoError(t, err)
		crash(t, giver)
		time.Sleep(10 * time.Second)

		restarted := leasingtest.NewManagerOn(t, &adoptionCheck{Provider: p, t: t}, leasing.Options{})
		_, err = restarted.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrHeld, "an acquire would wait for its own earlier life")
		adopted, err := restarted.Adopt(t.Context(), stored(l), leasing.AdoptOptions{})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, adopted.Err())
		require.NoError(t, adopted.Release(t.Context()))
	})
}

// crash ends a manager as a crash does: nothing is released.
func crash(t *testing.T, m *leasing.Manager) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.Error(t, m.Close(ended))
}

func TestAdoptThatComesTooLate(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		for reason, meanwhile := range map[leasing.LostReason]func(leasing.Handover){
			leasing.LostExpired: func(leasing.Handover) {},
			leasing.LostTaken:   func(leasing.Handover) { acquire(t, receiver, nil) },
			leasing.LostBroken: func(h leasing.Handover) {
				_, err := p.Break(t.Context(), abstractions.BreakRequest{Name: h.Name, Immediate: true})
				require.NoError(t, err)
			},
		} {
			l := acquire(t, giver, nil)
			handover, err := l.HandOver(t.Context())
			require.NoError(t, err)
			if reason != leasing.LostBroken {
				time.Sleep(30 * time.Second)
			}
			meanwhile(handover)
			_, err = receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{})
			var lost *leasing.LostError
			require.ErrorAs(t, err, &lost)
			require.Equal(t, reason, lost.Reason)
			if reason == leasing.LostTaken {
				_, err = p.Break(t.Context(), abstractions.BreakRequest{Name: name, Immediate: true})
				require.NoError(t, err)
			}
		}
	})
}

// An adoption whose reply was lost can be retried. Its failure causes no clean-up.
func TestAdoptCanBeRepeated(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		handover, err := acquire(t, giver, nil).HandOver(t.Context())
		require.NoError(t, err)
		p.Use(leasingtest.LoseReply(leasingtest.Renew, 1, errNetwork))
		_, err = receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{})
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		time.Sleep(20 * time.Second)
		require.Zero(t, p.Count(leasingtest.Release))
		adopted, err := receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{})
		require.NoError(t, err)

		sent := p.Count(leasingtest.Renew)
		_, err = receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{})
		requireInvalid(t, err, "Handover.ID")
		require.Equal(t, sent, p.Count(leasingtest.Renew))
		require.NoError(t, adopted.Err())
		require.NoError(t, adopted.Release(t.Context()))
	})
}

// If one manager adopts a lease twice at the same time, one of the two calls gets the lease.
func TestAdoptConcurrently(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		handover, err := acquire(t, giver, nil).HandOver(t.Context())
		require.NoError(t, err)
		p.Use(leasingtest.Delay(leasingtest.Renew, 2, time.Second))
		results := make(chan error, 2)
		for range 2 {
			go func() {
				l, err := receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{})
				results <- err
				if err == nil {
					time.Sleep(time.Second)
					require.NoError(t, l.Release(context.Background()))
				}
			}()
		}
		err = errors.Join(<-results, <-results)
		requireInvalid(t, err, "Handover.ID")
		require.Equal(t, 1, receiver.Health(t.Context()).Held)
		time.Sleep(time.Minute)
		require.NoError(t, acquire(t, receiver, nil).Err(), "and it was released")
	})
}

// Adoption does not stop a former holder that is still alive.
func TestAdoptDoesNotStopALivingTwin(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, first, second *leasing.Manager, p *leasingtest.Provider) {
		one := acquire(t, first, nil)
		two, err := second.Adopt(t.Context(), stored(one), leasing.AdoptOptions{})
		require.NoError(t, err)
		time.Sleep(time.Hour)
		require.NoError(t, one.Err())
		require.NoError(t, two.Err(), "both trust it")
		require.NoError(t, two.Release(t.Context()))
		require.ErrorIs(t, one.Renew(t.Context()), leasing.ErrLost)
	})
}

func TestAdoptAnInfiniteLease(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, giver, &leasing.AcquireOptions{TTL: leasing.Infinite})
		handover, err := l.HandOver(t.Context())
		require.NoError(t, err)
		require.Equal(t, leasing.Infinite, l.TTL())
		time.Sleep(time.Hour)
		adopted, err := receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{TTL: leasing.Infinite})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.Equal(t, leasing.Infinite, adopted.TTL())
		require.NoError(t, adopted.Release(t.Context()))
	})
}

func TestAdoptRefusesNonsense(t *testing.T) {
	virtual(t, leasing.Options{}, func(t *testing.T, m *leasing.Manager, p *leasingtest.Provider) {
		good := leasing.Handover{Name: name, ID: abstractions.NewID(), Token: 1}
		for field, change := range map[string]func(h *leasing.Handover, o *leasing.AdoptOptions){
			"Name":             func(h *leasing.Handover, _ *leasing.AdoptOptions) { h.Name = "" },
			"ID":               func(h *leasing.Handover, _ *leasing.AdoptOptions) { h.ID = "" },
			"Handover.Token":   func(h *leasing.Handover, _ *leasing.AdoptOptions) { h.Token = 0 },
			"AdoptOptions.TTL": func(_ *leasing.Handover, o *leasing.AdoptOptions) { o.TTL = -1 },
		} {
			bad, options := good, leasing.AdoptOptions{}
			change(&bad, &options)
			_, err := m.Adopt(t.Context(), bad, options)
			requireInvalid(t, err, field)
		}
		require.Empty(t, p.Calls())
		_, err := m.Adopt(t.Context(), good, leasing.AdoptOptions{})
		require.ErrorIs(t, err, leasing.ErrLost, "nobody ever held it")
		require.NoError(t, m.Close(t.Context()))
		_, err = m.Adopt(t.Context(), good, leasing.AdoptOptions{})
		require.ErrorIs(t, err, leasing.ErrClosed)
	})
}

// A manager does not adopt a claim that it is cleaning up, since the clean-up would free the name of the adopted lease.
func TestTrap_T57_AdoptRefusesWhatIsCleanedUp(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, m, other *leasing.Manager, p *leasingtest.Provider) {
		l := acquire(t, m, nil)
		remove := p.Use(leasingtest.LoseReply(leasingtest.Renew, leasingtest.Always, errNetwork))
		awaitEnd(t, l, time.Minute)
		requireLost(t, l, leasing.LostExpired)
		remove()
		_, err := m.Adopt(t.Context(), stored(l), leasing.AdoptOptions{})
		requireInvalid(t, err, "Handover.ID")
		time.Sleep(time.Minute)
		_, err = m.Adopt(t.Context(), stored(l), leasing.AdoptOptions{})
		require.ErrorIs(t, err, leasing.ErrLost)
		next, err := other.TryAcquire(t.Context(), name)
		require.NoError(t, err)
		require.NoError(t, next.Release(t.Context()))
	})
}

// If two calls adopt one lease at the same time, the refused call sends nothing: its shorter TTL would cut short the lease of the
// other call.
func TestTrap_T105_AdoptsAtTheSameTime(t *testing.T) {
	twoProcesses(t, leasing.Options{}, func(t *testing.T, giver, receiver *leasing.Manager, p *leasingtest.Provider) {
		handover, err := acquire(t, giver, nil).HandOver(t.Context())
		require.NoError(t, err)
		p.Use(leasingtest.Delay(leasingtest.Renew, leasingtest.Always, time.Second))
		var got *leasing.Lease
		var first sync.WaitGroup
		first.Go(func() {
			got, err = receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{TTL: 20 * time.Second, NoAutoRenew: true})
		})
		time.Sleep(time.Second / 2)
		_, refused := receiver.Adopt(t.Context(), handover, leasing.AdoptOptions{TTL: 5 * time.Second, NoAutoRenew: true})
		requireInvalid(t, refused, "Handover.ID")
		first.Wait()
		require.NoError(t, err)
		time.Sleep(10 * time.Second)
		require.NoError(t, got.Err())
		_, err = giver.TryAcquire(t.Context(), name)
		require.ErrorIs(t, err, leasing.ErrHeld)
		require.NoError(t, got.Release(t.Context()))
	})
}
