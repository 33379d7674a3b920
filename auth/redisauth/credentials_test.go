package redisauth

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing"
	redisauth "github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"
)

// New sends no request. One token, requested later, serves all connections.
func TestOneTokenForAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lifetime: time.Hour, takes: time.Second}
		c := open(t, s)
		synctest.Wait()
		require.Zero(t, s.requests())
		var connections sync.WaitGroup
		for range 50 {
			connections.Go(func() {
				token, _ := subscribe(t, c, new(listener))
				require.Equal(t, "1", token)
			})
		}
		connections.Wait()
		require.Equal(t, 1, s.requests())
	})
}

// T48: live connections get each new token before the old token ends.
func TestTrap_T48_TokensAreReplacedInTime(t *testing.T) {
	for _, c := range []struct{ lifetime, refresh, every time.Duration }{
		{lifetime: time.Hour, every: 55 * time.Minute},
		{lifetime: 24 * time.Hour, refresh: 12 * time.Hour, every: 12 * time.Hour},
		{lifetime: time.Hour, refresh: 59 * time.Minute, every: 55 * time.Minute},
		{lifetime: 8 * time.Minute, every: 6 * time.Minute},
		{lifetime: 4 * time.Second, every: 3 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := &source{lifetime: c.lifetime, refresh: c.refresh}
			credentials := open(t, s)
			l := new(listener)
			subscribe(t, credentials, l)
			begun := time.Now()
			time.Sleep(10*c.every + c.every/2)
			require.Equal(t, []string{"2", "3", "4", "5", "6", "7", "8", "9", "10", "11"}, l.received())
			synctest.Wait()
			for i, at := range l.at {
				require.Equal(t, time.Duration(i+1)*c.every, at.Sub(begun))
			}
			require.Empty(t, l.errs)
		})
	}
}

// Failed requests are retried until one succeeds. Meanwhile the old token is used, and no listener
// receives an error, since go-redis would close its connection.
func TestFailuresAreRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lifetime: time.Hour}
		c := open(t, s)
		l := new(listener)
		subscribe(t, c, l)
		s.set(func() { s.err = errors.New("away") })
		time.Sleep(59 * time.Minute)
		token, _ := subscribe(t, c, new(listener))
		require.Equal(t, "1", token, "still good")
		require.InDelta(t, 14, s.requests(), 3, "1, 2, 4, 8, 16, 30, 30... seconds apart in 4 minutes")
		asked := s.times()
		for i := 2; i < len(asked); i++ {
			pause := asked[i].Sub(asked[i-1])
			require.LessOrEqual(t, pause, 30*time.Second)
			require.GreaterOrEqual(t, pause, 750*time.Millisecond)
		}
		time.Sleep(time.Hour) // the retries go on at the same rate
		require.InDelta(t, 14+60*60/26, s.requests(), 20)
		_, _, err := c.Subscribe(new(listener))
		require.ErrorIs(t, err, leasing.ErrUnavailable)
		require.ErrorContains(t, err, "away")
		s.set(func() { s.err = nil })
		time.Sleep(31 * time.Second)
		require.Equal(t, []string{"2"}, l.received())
		require.Empty(t, l.errs)
		time.Sleep(55 * time.Minute)
		require.Equal(t, []string{"2", "3"}, l.received(), "back to the usual")
	})
}

// If a new connection gets a token during a pause after failures, all connections get this
// token, and it is replaced when it is due.
func TestConnectionEndsAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lifetime: time.Hour}
		c := open(t, s)
		l := new(listener)
		subscribe(t, c, l)
		s.set(func() { s.err = errors.New("away") })
		time.Sleep(65 * time.Minute)
		failed := s.times()
		time.Sleep(time.Until(failed[len(failed)-1].Add(31 * time.Second))) // the next pause has just begun
		s.set(func() { s.err, s.lifetime = nil, 4*time.Second })
		token, _ := subscribe(t, c, new(listener))
		require.Equal(t, "2", token)
		time.Sleep(7 * time.Second)
		require.Equal(t, []string{"2", "3", "4"}, l.received())
	})
}

// If a credential returns its old token again, the request is repeated.
func TestSameTokenOnceMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lifetime: time.Hour}
		c := open(t, s)
		l := new(listener)
		subscribe(t, c, l)
		s.set(func() { s.repeat = true })
		time.Sleep(57 * time.Minute)
		require.Empty(t, l.received())
		require.InDelta(t, 9, s.requests(), 3)
		s.set(func() { s.repeat = false })
		time.Sleep(31 * time.Second)
		require.Equal(t, []string{"2"}, l.received())
	})
}

// Without connections no token is requested, and the next connection gets a new token.
func TestNobodyListens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lifetime: time.Hour}
		c := open(t, s)
		l := new(listener)
		_, unsubscribe := subscribe(t, c, l)
		synctest.Wait() // the next request is planned
		unsubscribe()
		unsubscribe()                  // a second call does nothing
		time.Sleep(10_000 * time.Hour) // would take forever if a loop polled every 10 ms
		require.Equal(t, 1, s.requests())
		token, _ := subscribe(t, c, l)
		require.Equal(t, "2", token)
		require.Empty(t, l.received())
		time.Sleep(56 * time.Minute)
		require.Equal(t, []string{"3"}, l.received())
	})
}

// A connection that opens when the token is due for replacement gets the current token at once, and
// the next one soon after.
func TestConnectionAfterAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lifetime: time.Hour}
		c := open(t, s)
		_, unsubscribe := subscribe(t, c, new(listener))
		unsubscribe()
		time.Sleep(57 * time.Minute)
		l := new(listener)
		token, _ := subscribe(t, c, l)
		require.Equal(t, "1", token)
		time.Sleep(time.Second)
		require.Equal(t, []string{"2"}, l.received())
	})
}

// Subscribing the same listener twice counts once, as go-redis requires.
func TestSubscribingAgainIsTheSame(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lifetime: time.Hour}
		c := open(t, s)
		l := new(listener)
		subscribe(t, c, l)
		_, unsubscribe := subscribe(t, c, l)
		time.Sleep(56 * time.Minute)
		require.Equal(t, []string{"2"}, l.received())
		unsubscribe()
		time.Sleep(time.Hour)
		require.Equal(t, []string{"2"}, l.received())
	})
}

// A listener that subscribes while a token arrives does not miss a token.
func TestNoTokenIsMissed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lifetime: 4 * time.Second}
		c := open(t, s)
		subscribe(t, c, new(listener))
		var connections sync.WaitGroup
		for i := range 200 {
			connections.Go(func() {
				l := new(listener)
				time.Sleep(2900*time.Millisecond + time.Duration(i)*time.Millisecond)
				token, _ := subscribe(t, c, l)
				last := token
				time.Sleep(10 * time.Second)
				for _, heard := range l.received() {
					require.Equal(t, fmt.Sprint(number(t, last)+1), heard)
					last = heard
				}
				require.GreaterOrEqual(t, number(t, last), 5)
			})
		}
		connections.Wait()
	})
}

func number(t *testing.T, token string) int {
	t.Helper()
	n, err := strconv.Atoi(token)
	require.NoError(t, err)
	return n
}

// A request that hangs ends after Timeout, for all its waiters at once.
func TestRequestsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lifetime: time.Hour, takes: time.Hour}
		c := open(t, s)
		begun := time.Now()
		var connections sync.WaitGroup
		for range 10 {
			connections.Go(func() {
				_, _, err := c.Subscribe(new(listener))
				require.ErrorIs(t, err, leasing.ErrUnavailable)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
		}
		connections.Wait()
		require.Equal(t, DefaultTimeout-250*time.Millisecond, time.Since(begun))
		require.Equal(t, 1, s.requests())
	})
}

// Close ends requests in flight, waits for its goroutines, and may be called twice.
func TestClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &source{lifetime: time.Hour, takes: time.Second}
		c := open(t, s)
		subscribe(t, c, new(listener))
		s.set(func() { s.takes = time.Hour })
		time.Sleep(55*time.Minute + time.Second) // a replacement is in flight
		other := open(t, s)
		failed := make(chan error)
		go func() {
			_, _, err := other.Subscribe(new(listener))
			failed <- err
		}()
		synctest.Wait()
		begun := time.Now()
		for range 2 {
			require.NoError(t, c.Close())
			require.NoError(t, other.Close())
		}
		require.ErrorIs(t, <-failed, leasing.ErrClosed)
		_, _, err := c.Subscribe(new(listener))
		require.ErrorIs(t, err, leasing.ErrClosed)
		require.Zero(t, time.Since(begun))
	})
}

// If one listener is slow, the others still receive tokens in order.
func TestTokensComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, &source{lifetime: 4 * time.Second})
		listeners := make([]*listener, 10)
		for i := range listeners {
			listeners[i] = new(listener)
			subscribe(t, c, listeners[i])
			_, _, err := c.Subscribe(&callingListener{call: func() { time.Sleep(time.Duration(i) * 100 * time.Millisecond) }})
			require.NoError(t, err)
		}
		time.Sleep(time.Minute)
		require.NoError(t, c.Close())
		for _, l := range listeners {
			require.NotEmpty(t, l.received())
			require.IsIncreasing(t, numbers(t, l.received()))
		}
	})
}

func numbers(t *testing.T, tokens []string) (all []int) {
	t.Helper()
	for _, token := range tokens {
		all = append(all, number(t, token))
	}
	return all
}

// A listener may unsubscribe, or subscribe another listener, while it receives a token.
func TestListenersMayCallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := open(t, &source{lifetime: time.Hour})
		ends := make(chan redisauth.UnsubscribeFunc, 1)
		l := &callingListener{call: func() {
			require.NoError(t, (<-ends)())
			subscribe(t, c, new(listener))
		}}
		_, end, err := c.Subscribe(l)
		require.NoError(t, err)
		ends <- end
		time.Sleep(2 * time.Hour)
		require.EqualValues(t, 1, l.calls.Load())
	})
}

type callingListener struct {
	listener
	call  func()
	calls atomic.Int32
}

func (c *callingListener) OnNext(redisauth.Credentials) {
	c.calls.Add(1)
	c.call()
}
