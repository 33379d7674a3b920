package waitqueue

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/wakeup"
	"github.com/distributedleasing/leasing/providers/redis/internal/redistest"
	"github.com/distributedleasing/leasing/providers/redis/internal/script"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/stretchr/testify/require"
)

func TestAHintForLaterComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := listening(t, new([]string))
		ctx, cancel := context.WithCancel(t.Context())
		wakeups, err := q.Register(ctx, script.Keys{}, abstractions.WaitRequest{ID: "w", Owner: "owner"})
		require.NoError(t, err)
		for _, after := range []time.Duration{200 * time.Millisecond, time.Millisecond} {
			began := time.Now()
			require.Empty(t, q.parse(fmt.Sprintf("w %d leasing:{n}", after.Milliseconds())))
			<-wakeups.C
			require.Equal(t, after, time.Since(began))
		}
		require.Equal(t, "w", q.parse("w 0 leasing:{n}"))
		require.Empty(t, q.parse("w 200 leasing:{n}"))
		cancel()
		<-time.After(time.Minute)
		require.Empty(t, wakeups.C, "a claim that has left gets no wake-up")
	})
}

// silent is a connection that receives nothing.
type silent struct{}

func (silent) Receive(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
func (silent) Ping(context.Context) error                  { return nil }
func (silent) Close()                                      {}

// listening returns a queue without wake-ups, which records the claims that leave.
func listening(t *testing.T, left *[]string) *Queue {
	q := New(nil, "channel", func(_ context.Context, _ script.Keys, id, at string) { *left = append(*left, id+" "+at) })
	q.Wakeups.Connect = func(context.Context) (wakeup.Connection, error) { return silent{}, nil }
	t.Cleanup(q.Close)
	return q
}

// A claim that is registered twice keeps its place, whichever of its registrations ends
// earlier.
func TestARegistrationEndsWithTheLast(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var left []string
		q := listening(t, &left)
		register := func(id string) (leave func()) {
			ctx, cancel := context.WithCancel(t.Context())
			_, err := q.Register(ctx, script.Keys{}, abstractions.WaitRequest{ID: id, Owner: "owner"})
			require.NoError(t, err)
			return func() {
				cancel()
				synctest.Wait()
			}
		}
		first := register("asked")
		require.Equal(t, "channel\nowner", q.PlaceOf("asked"))
		second := register("asked") // and never sends its acquire
		first()
		require.Empty(t, left)
		second()
		require.Equal(t, []string{"asked channel\nowner"}, left)

		register("never asked")()
		require.Len(t, left, 1)

		leave := register("served")
		q.PlaceOf("served")
		q.Served("served")
		leave()
		require.Len(t, left, 1)
	})
}

func TestWaitingForASubscriptionIsBounded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections and never answers
	require.NoError(t, err)
	defer listener.Close()
	client := redis.NewClient(&redis.Options{Addr: listener.Addr().String(), DialTimeout: time.Second, ReadTimeout: time.Second, MaxRetries: -1, DialerRetries: 1})
	defer client.Close()
	q := New(client, "channel", nil)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = q.Register(ctx, script.Keys{}, abstractions.WaitRequest{ID: "a", Owner: "owner"})
	redistest.RequireUncertain(t, err)

	unbounded := make(chan error, 1)
	register := func() {
		_, err := q.Register(context.Background(), script.Keys{}, abstractions.WaitRequest{ID: "a", Owner: "owner"})
		unbounded <- err
	}
	go register()
	select {
	case err := <-unbounded:
		redistest.RequireUncertain(t, err)
	case <-time.After(time.Minute):
		t.Fatal("it waits for ever")
	}

	go register()
	began := time.Now()
	q.Close()
	require.Less(t, time.Since(began), 30*time.Second)
	require.Error(t, <-unbounded)
}

// A silent connection is kept and checked with a PING, and messages before the answer are
// processed.
func TestASilentConnectionIsAskedWhetherItLives(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var served sync.WaitGroup
	var connections, pings atomic.Int32
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			connections.Add(1)
			served.Go(func() {
				defer conn.Close()
				answer(conn, &pings)
			})
		}
	})
	defer served.Wait()
	defer listener.Close()
	client := redis.NewClient(&redis.Options{
		Addr: listener.Addr().String(), Protocol: 2, DisableIdentity: true, MaxRetries: -1,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	})
	defer client.Close()
	q := New(client, "channel", nil)
	q.Wakeups.Silence = 10 * time.Millisecond
	defer q.Close()
	wakeups, err := q.Register(t.Context(), script.Keys{}, abstractions.WaitRequest{ID: "w", Owner: "owner"})
	require.NoError(t, err)
	select {
	case <-wakeups.C:
	case <-time.After(time.Minute):
		t.Fatal("no wake-up")
	}
	require.Eventually(t, func() bool { return pings.Load() > 5 }, time.Minute, time.Millisecond)
	require.EqualValues(t, 1, connections.Load())
}

// answer is a server that wakes w before the answer to the third ping.
func answer(conn net.Conn, pings *atomic.Int32) {
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		switch lines.Text() {
		case "hello":
			fmt.Fprint(conn, "-ERR unknown command\r\n")
		case "subscribe":
			fmt.Fprint(conn, "*3\r\n$9\r\nsubscribe\r\n$7\r\nchannel\r\n:1\r\n")
		case "ping":
			if pings.Add(1) == 3 {
				fmt.Fprint(conn, "*3\r\n$7\r\nmessage\r\n$7\r\nchannel\r\n$15\r\nw 0 leasing:{n}\r\n")
			}
			fmt.Fprint(conn, "*2\r\n$4\r\npong\r\n$0\r\n\r\n")
		}
	}
}
