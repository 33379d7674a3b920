package wakeup

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

func wait(ctx context.Context, t *testing.T, w *Listener, key string) <-chan struct{} {
	t.Helper()
	wakeups, err := w.Wait(ctx, key)
	require.NoError(t, err)
	require.Equal(t, 1, cap(wakeups.C))
	return wakeups.C
}

func isWoken(wakeups <-chan struct{}) bool {
	synctest.Wait()
	select {
	case <-wakeups:
		return true
	default:
		return false
	}
}

func TestWakeWakesTheHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Listener
		defer w.Close()
		w.Wake("a")
		ctx, leave := context.WithCancel(t.Context())
		first, second, other := wait(ctx, t, &w, "a"), wait(t.Context(), t, &w, "a"), wait(t.Context(), t, &w, "b")
		w.Wake("a")
		require.True(t, isWoken(first))
		w.Wake("a")
		require.True(t, isWoken(first))
		require.False(t, isWoken(first))
		require.False(t, isWoken(second))
		require.False(t, isWoken(other))
		leave()
		synctest.Wait()
		w.Wake("a")
		require.True(t, isWoken(second))
		require.False(t, isWoken(first))
		require.False(t, w.Listening(), "there is no connection")
	})
}

// T60: the wake-up of a waiter that leaves without receiving it goes to the next
// waiter.
func TestTrap_T60_WakeupOfALeavingWaiterIsHandedOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Listener
		ctx, leave := context.WithCancel(t.Context())
		first, second := wait(ctx, t, &w, "a"), wait(t.Context(), t, &w, "a")
		w.Wake("a")
		leave()
		require.True(t, isWoken(second))
		require.False(t, isWoken(first))
		require.Len(t, w.queues["a"], 1)
	})
}

// T93: a waiter that is stuck and receives no wake-up is passed over.
func TestTrap_T93_WaiterThatTakesNoWakeupIsPassedOver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Listener
		stuck, second, third := wait(t.Context(), t, &w, "a"), wait(t.Context(), t, &w, "a"), wait(t.Context(), t, &w, "a")
		w.Wake("a")
		for range 3 {
			w.Wake("a")
			require.True(t, isWoken(second))
			require.False(t, isWoken(third))
		}
		require.True(t, isWoken(stuck))
		require.False(t, isWoken(stuck), "many wake-ups are one")
	})
}

func TestWaitersLeaveNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w Listener
		ctx, leave := context.WithCancel(t.Context())
		for range 10 {
			wait(ctx, t, &w, "a")
		}
		leave()
		synctest.Wait()
		require.Empty(t, w.queues)
		require.Zero(t, w.count.Load())
		w.Close()
		_, err := w.Wait(t.Context(), "a")
		require.ErrorIs(t, err, abstractions.ErrClosed)
	})
}

// fakeConnection is a connection to a fake server.
type fakeConnection struct {
	messages chan string
	broken   chan struct{}
	dead     *atomic.Bool // answers no ping
	pings    atomic.Int64
	closed   atomic.Bool
}

func (l *fakeConnection) Receive(ctx context.Context) (string, error) {
	select {
	case m := <-l.messages:
		return m, nil
	case <-l.broken:
		return "", errClient
	case <-ctx.Done():
		return "", ctx.Err()
	}
}

func (l *fakeConnection) Ping(ctx context.Context) error {
	l.pings.Add(1)
	if l.dead.Load() {
		<-ctx.Done()
	}
	return ctx.Err()
}

func (l *fakeConnection) Close() { l.closed.Store(true) }

// errClient stands for an error from a client library.
var errClient = errors.New("E42")

// server is the server that a Listener connects to.
type server struct {
	down, dead atomic.Bool
	dials      atomic.Int64
	conn       *fakeConnection // the latest
}

func (s *server) connect(ctx context.Context) (Connection, error) {
	s.dials.Add(1)
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("no deadline")
	}
	if s.down.Load() {
		return nil, errClient
	}
	s.conn = &fakeConnection{messages: make(chan string), broken: make(chan struct{}), dead: &s.dead}
	return s.conn, nil
}

func TestMessagesWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s server
		w := &Listener{Connect: s.connect}
		require.False(t, w.Listening())
		require.Zero(t, s.dials.Load(), "nobody waits")
		a, b := wait(t.Context(), t, w, "a"), wait(t.Context(), t, w, "b")
		require.True(t, w.Listening())
		s.conn.messages <- "a"
		require.True(t, isWoken(a))
		require.False(t, isWoken(b))
		require.EqualValues(t, 1, s.dials.Load())
		w.Close()
		require.True(t, s.conn.closed.Load())
		require.False(t, w.Listening())
	})
}

// T32: after a connection was lost all waiters are woken, since wake-ups may have
// been missed.
func TestTrap_T32_LostConnectionIsMadeAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s server
		w := &Listener{Connect: s.connect}
		defer w.Close()
		a, b := wait(t.Context(), t, w, "a"), wait(t.Context(), t, w, "b")
		s.down.Store(true)
		first := s.conn
		close(first.broken)
		synctest.Wait()
		require.True(t, first.closed.Load())
		require.False(t, w.Listening())
		began := time.Now()
		_, err := w.Wait(t.Context(), "c")
		require.ErrorIs(t, err, errClient)
		require.Zero(t, time.Since(began), "the error comes at once")
		require.False(t, isWoken(a))

		time.Sleep(time.Minute)
		require.InDelta(t, 22, s.dials.Load(), 8, "with pauses that grow up to 5s")
		s.down.Store(false)
		time.Sleep(maxPause)
		require.True(t, isWoken(a))
		require.True(t, isWoken(b))
		require.True(t, w.Listening())
		s.conn.messages <- "b"
		require.True(t, isWoken(b))
	})
}

// A connection whose other end has disappeared silently is detected.
func TestSilentConnectionIsPinged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s server
		w := &Listener{Connect: s.connect, Silence: time.Minute}
		defer w.Close()
		a := wait(t.Context(), t, w, "a")
		first := s.conn
		time.Sleep(10*time.Minute + time.Second)
		require.EqualValues(t, 10, first.pings.Load())
		require.Same(t, first, s.conn)
		s.dead.Store(true)
		time.Sleep(time.Minute + connectTimeout + minPause)
		synctest.Wait()
		require.NotSame(t, first, s.conn)
		require.True(t, first.closed.Load())
		require.True(t, isWoken(a))
	})
}

func TestConnectionEndsWhenNobodyWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s server
		w := &Listener{Connect: s.connect}
		ctx, leave := context.WithCancel(t.Context())
		wait(ctx, t, w, "a")
		leave()
		time.Sleep(defaultSilence + time.Second)
		require.True(t, s.conn.closed.Load())
		require.False(t, w.Listening())
		wait(t.Context(), t, w, "a")
		require.True(t, w.Listening())
		require.EqualValues(t, 2, s.dials.Load())
		w.Close()
	})
}

// Neither a waiter nor Close is delayed by a server that hangs.
func TestHungConnectHoldsNobodyUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &Listener{Connect: func(ctx context.Context) (Connection, error) { <-ctx.Done(); return nil, ctx.Err() }}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := w.Wait(ctx, "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		began := time.Now()
		_, err = w.Wait(t.Context(), "a")
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.LessOrEqual(t, time.Since(began), connectTimeout)
		go func() { _, _ = w.Wait(t.Context(), "b") }()
		synctest.Wait()
		began = time.Now()
		w.Close()
		require.Zero(t, time.Since(began))
	})
}

func TestConcurrentSafe_Listener(t *testing.T) {
	var w Listener
	done := make(chan struct{})
	for range 8 {
		go func() {
			defer func() { done <- struct{}{} }()
			for range 200 {
				ctx, leave := context.WithCancel(t.Context())
				_, err := w.Wait(ctx, "a")
				w.Wake("a")
				leave()
				if err != nil {
					t.Error(err)
				}
			}
		}()
	}
	for range 8 {
		<-done
	}
	w.Close()
}
