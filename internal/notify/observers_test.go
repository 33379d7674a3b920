package notify

import (
	"log/slog"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// journal is an observer that records the events.
type journal struct {
	mu     sync.Mutex
	events []abstractions.Event
}

func (j *journal) observe(e abstractions.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.events = append(j.events, e)
}

func (j *journal) kinds() (kinds []abstractions.EventKind) {
	synctest.Wait()
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, e := range j.events {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func silent() *Observers {
	return New(slog.New(slog.DiscardHandler), "memory", func() {}, func(slog.Level, string, ...any) {})
}

func event(kind abstractions.EventKind) *abstractions.Event {
	return &abstractions.Event{Kind: kind, Time: time.Now(), Coalesced: 1}
}

// An observer that hangs does not delay other observers, and gets its events later.
func TestASlowObserverDelaysNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := silent()
		var slow, fast journal
		hang := make(chan struct{})
		o.Subscribe(func(e abstractions.Event) { <-hang; slow.observe(e) })
		unsubscribe := o.Subscribe(fast.observe)
		o.Publish(nil, "id", event(abstractions.EventAcquired))
		o.Publish(nil, "id", event(abstractions.EventReleased))
		both := []abstractions.EventKind{abstractions.EventAcquired, abstractions.EventReleased}
		require.Equal(t, both, fast.kinds())
		require.Empty(t, slow.kinds())
		time.Sleep(stuckAfter + 1)
		require.Equal(t, 1, o.Stuck())
		began := time.Now()
		o.Flush(time.Second)
		require.Equal(t, time.Second, time.Since(began))
		unsubscribe()
		o.Publish(nil, "id", event(abstractions.EventAcquired))
		close(hang)
		o.Flush(time.Second)
		require.Equal(t, append(both, abstractions.EventAcquired), slow.kinds())
		require.Equal(t, both, fast.kinds())
		require.Zero(t, o.Stuck())
	})
}

// Renewals that wait for a busy observer become one event. Events of other claims or kinds stay separate.
func TestEventsThatWaitAreMerged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := silent()
		var j journal
		hang := make(chan struct{})
		own := o.ForLease(func(e abstractions.Event) { <-hang; j.observe(e) })
		o.Publish(own, "a", event(abstractions.EventAcquired))
		synctest.Wait()
		for range 3 {
			o.Publish(own, "a", event(abstractions.EventRenewed))
		}
		o.Publish(own, "b", event(abstractions.EventRenewed))
		o.Publish(own, "a", event(abstractions.EventRenewalFailed))
		close(hang)
		require.Equal(t, []abstractions.EventKind{
			abstractions.EventAcquired, abstractions.EventRenewed, abstractions.EventRenewed, abstractions.EventRenewalFailed,
		}, j.kinds())
		require.Equal(t, 3, j.events[1].Coalesced)
	})
}

// An observer that panics, or ends its goroutine, gets the next event all the same.
func TestAnObserverThatPanicsIsCalledAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counted, logged := 0, 0
		o := New(slog.New(slog.DiscardHandler), "memory", func() { counted++ }, func(slog.Level, string, ...any) { logged++ })
		var j journal
		o.Subscribe(func(e abstractions.Event) {
			j.observe(e)
			switch e.Kind {
			case abstractions.EventAcquired:
				panic("a bug")
			case abstractions.EventRenewed:
				runtime.Goexit()
			}
		})
		kinds := []abstractions.EventKind{abstractions.EventAcquired, abstractions.EventRenewed, abstractions.EventReleased}
		for _, kind := range kinds {
			o.Publish(nil, "id", event(kind))
		}
		require.Equal(t, kinds, j.kinds())
		require.EqualValues(t, 2, o.Panics())
		require.Equal(t, [2]int{1, 1}, [2]int{counted, logged})
	})
}

// A stuck observer's queue is bounded. The observer gets the number of events that it has missed.
func TestAStuckObserverGetsTheNumberOfDroppedEvents(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := silent()
		var j journal
		hang := make(chan struct{})
		o.Subscribe(func(e abstractions.Event) { <-hang; j.observe(e) })
		o.Publish(nil, "", event(abstractions.EventAcquired))
		synctest.Wait()
		time.Sleep(stuckAfter + 1)
		for range maxPending + 5 {
			o.Publish(nil, "", event(abstractions.EventBroken))
		}
		close(hang)
		kinds := j.kinds()
		require.Len(t, kinds, 1+maxPending+1)
		last := j.events[len(j.events)-1]
		require.Equal(t, abstractions.EventDropped, last.Kind)
		require.Equal(t, 5, last.Coalesced)
	})
}
