package netfault_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/chaos/netfault"
)

func TestGoodNetworkPassesEverything(t *testing.T) {
	_, p := start(t)
	var all sync.WaitGroup
	for i := range 8 {
		c := dial(t, p)
		all.Go(func() {
			for n := range 100 {
				c.ask(fmt.Sprint(i, "-", n))
			}
		})
	}
	all.Wait()
	require.Equal(t, 8, p.Connections())
}

func TestLatencyIsAddedToReplies(t *testing.T) {
	_, p := start(t)
	c := dial(t, p)
	c.ask("warm")
	const latency = 80 * time.Millisecond
	require.NoError(t, p.Set(netfault.Conditions{Latency: latency, Jitter: 10 * time.Millisecond}))
	began := time.Now()
	c.ask("slow")
	require.GreaterOrEqual(t, time.Since(began), latency)
}

func TestLatencyIsNoLimitOfThroughput(t *testing.T) {
	_, p := start(t)
	c := dial(t, p)
	require.NoError(t, p.Set(netfault.Conditions{Latency: 300 * time.Millisecond}))
	began := time.Now()
	for i := range 20 {
		c.send(fmt.Sprint(i))
	}
	for i := range 20 {
		answer, err := c.receive(timeout)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("ok ", i), answer)
	}
	require.Less(t, time.Since(began), 20*300*time.Millisecond)
}

func TestLostReplyWasApplied(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	require.NoError(t, p.Set(netfault.Conditions{RepliesLost: true}))
	c.send("write")
	e.await(t, e.has("write"))
	_, err := c.receive(quietTime)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
}

func TestLostRequestWasNotApplied(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	require.NoError(t, p.Set(netfault.Conditions{RequestsLost: true}))
	c.send("write")
	_, err := c.receive(quietTime)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	require.NoError(t, p.Heal())
	other := dial(t, p)
	other.ask("later")
	e.mu.Lock()
	defer e.mu.Unlock()
	require.NotContains(t, e.applied, "write")
}

// If the connection continued after a gap in the stream, the client could mistake an answer for the reply to another
// request.
func TestConnectionThatLostSomethingIsResetWhenItHeals(t *testing.T) {
	for _, lost := range []netfault.Conditions{{RequestsLost: true}, {RepliesLost: true}} {
		e, p := start(t)
		wounded, spared := dial(t, p), dial(t, p)
		spared.ask("before")
		wounded.ask("before")
		require.NoError(t, p.Set(lost))
		wounded.send("hole")
		if lost.RepliesLost {
			e.await(t, e.has("hole"))
		}
		_, err := wounded.receive(quietTime) // by now the proxy has dropped the line
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
		require.NoError(t, p.Heal())
		_, err = wounded.receive(timeout)
		require.True(t, wasReset(err), "%v", err)
		spared.ask("after")
	}
}

func wasReset(err error) bool { return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) }

func TestPartitionDeliversLate(t *testing.T) {
	e, p := start(t)
	before := dial(t, p)
	before.ask("before")
	require.NoError(t, p.Set(netfault.Conditions{Partitioned: true}))
	during := dial(t, p)
	before.send("late")
	during.send("too")
	for _, c := range []*client{before, during} {
		_, err := c.receive(quietTime)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	e.mu.Lock()
	require.Equal(t, []string{"before"}, e.applied)
	e.mu.Unlock()
	require.NoError(t, p.Heal())
	for c, want := range map[*client]string{before: "ok late", during: "ok too"} {
		answer, err := c.receive(timeout)
		require.NoError(t, err)
		require.Equal(t, want, answer)
	}
}

func TestDownRefusesAndComesBackAtTheSameAddress(t *testing.T) {
	_, p := start(t)
	c := dial(t, p)
	c.ask("before")
	addr := p.Addr()
	require.NoError(t, p.Set(netfault.Conditions{Down: true}))
	_, err := c.receive(timeout)
	require.True(t, wasReset(err), "%v", err)
	_, err = net.DialTimeout("tcp", addr, timeout)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
	require.NoError(t, p.Heal())
	require.Equal(t, addr, p.Addr())
	dial(t, p).ask("after")
}

func TestResetClosesWhatIsOpen(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	c.ask("before")
	p.Reset()
	_, err := c.receive(timeout)
	require.ErrorIs(t, err, syscall.ECONNRESET)
	e.await(t, func() bool { return len(e.open) == 0 })
	dial(t, p).ask("after")
}

func TestHalfOpenSendsNothing(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	c.ask("before")
	p.HalfOpen()
	e.await(t, func() bool { return len(e.open) == 0 })
	c.send("into the void")
	_, err := c.receive(quietTime)
	require.ErrorIs(t, err, os.ErrDeadlineExceeded, "the client is not notified")
	dial(t, p).ask("after")
	require.Equal(t, 2, p.Connections())
}

func TestServerThatIsNotThereEndsTheConnection(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, listener.Close())
	p, err := netfault.Start(listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	conn, err := net.DialTimeout("tcp", p.Addr(), timeout)
	if err == nil { // otherwise the reset came before the dial returned
		_, err = (&client{t, conn, bufio.NewReader(conn)}).receive(timeout)
		_ = conn.Close()
	}
	require.True(t, wasReset(err), "%v", err)
}

func TestServerThatClosesClosesTheClient(t *testing.T) {
	e, p := start(t)
	c := dial(t, p)
	c.ask("before")
	e.mu.Lock()
	for conn := range e.open {
		_ = conn.Close()
	}
	e.mu.Unlock()
	_, err := c.receive(timeout)
	require.ErrorIs(t, err, io.EOF)
}

// goleak in TestMain checks that Close leaves no goroutine.
func TestCloseEndsConnectionsInAnyCondition(t *testing.T) {
	for _, c := range []netfault.Conditions{
		{}, {Latency: time.Hour}, {RequestsLost: true}, {RepliesLost: true}, {Partitioned: true}, {Down: true},
	} {
		e := startEcho(t)
		p, err := netfault.Start(e.listener.Addr().String())
		require.NoError(t, err)
		conn := dial(t, p)
		conn.ask("before")
		require.NoError(t, p.Set(c))
		_, _ = io.WriteString(conn, "something\n")
		require.NoError(t, p.Close())
		for err = error(nil); err == nil; { // an answer may have come through
			_, err = conn.receive(timeout)
		}
		require.True(t, wasReset(err), "%v", err)
		require.Error(t, p.Heal())
		require.NoError(t, p.Close())
	}
}

func TestConditionsChangeWhileDataFlows_ConcurrentSafe(t *testing.T) {
	_, p := start(t)
	over := make(chan struct{})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			for {
				select {
				case <-over:
					return
				default:
				}
				conn, err := net.DialTimeout("tcp", p.Addr(), timeout)
				if err != nil {
					continue
				}
				_ = conn.SetDeadline(time.Now().Add(20 * time.Millisecond))
				for range 20 {
					if _, err := io.WriteString(conn, "x\n"); err != nil {
						break
					}
					var answer [5]byte
					if _, err := io.ReadFull(conn, answer[:]); err != nil {
						break
					}
				}
				_ = conn.Close()
			}
		})
	}
	for i := range 100 {
		require.NoError(t, p.Set(netfault.Conditions{
			Latency: time.Duration(i%3) * time.Millisecond, RequestsLost: i%5 == 1, RepliesLost: i%5 == 2, Partitioned: i%5 == 3, Down: i%10 == 4,
		}))
		if i%7 == 0 {
			p.Reset()
		}
		if i%11 == 0 {
			p.HalfOpen()
		}
		<-time.After(3 * time.Millisecond)
	}
	close(over)
	all.Wait()
	require.NoError(t, p.Heal())
	dial(t, p).ask("after")
}

func TestNonsenseIsRefused(t *testing.T) {
	_, p := start(t)
	for field, c := range map[string]netfault.Conditions{"Conditions.Latency": {Latency: -1}, "Conditions.Jitter": {Jitter: -1}} {
		invalid := (*leasing.InvalidError)(nil)
		require.ErrorAs(t, p.Set(c), &invalid)
		require.Equal(t, field, invalid.Field)
	}
	_, err := netfault.Start("no port")
	require.Error(t, err)
}

// A connection that is still being set up also ends when the network goes down or the proxy is
// closed.
func TestConnectionsThatComeInMeanwhileEnd(t *testing.T) {
	e := startEcho(t)
	for i := range 60 {
		p, err := netfault.Start(e.listener.Addr().String())
		require.NoError(t, err)
		var conns []*client
		for range 4 {
			conns = append(conns, dial(t, p))
		}
		if i%2 == 0 {
			require.NoError(t, p.Set(netfault.Conditions{Down: true}))
			allEnd(t, conns)
		}
		closed := make(chan error, 1)
		go func() { closed <- p.Close() }()
		select {
		case err := <-closed:
			require.NoError(t, err)
		case <-time.After(timeout):
			require.FailNow(t, "a connection keeps it from closing")
		}
		allEnd(t, conns)
	}
}

func allEnd(t *testing.T, conns []*client) {
	t.Helper()
	for _, c := range conns {
		_, err := c.receive(timeout)
		require.True(t, wasReset(err), "%v", err)
	}
}

// A half-open connection ends when its client closes the socket.
func TestHalfOpenConnectionEndsWithItsClient(t *testing.T) {
	_, p := start(t)
	c := dial(t, p)
	c.ask("before")
	p.HalfOpen()
	require.NoError(t, c.Close())
	require.Eventually(t, func() bool { return p.Connections() == 0 }, timeout, time.Millisecond)
}

func TestHealEndsLatency(t *testing.T) {
	_, p := start(t)
	require.NoError(t, p.Set(netfault.Conditions{Latency: time.Hour, Jitter: time.Hour}))
	require.NoError(t, p.Heal())
	dial(t, p).ask("soon")
}

// While the network keeps losing data in the same direction, the client is not notified.
func TestConnectionThatLostSomethingIsSilentUntilItHeals(t *testing.T) {
	_, p := start(t)
	c := dial(t, p)
	c.ask("before")
	for _, more := range []netfault.Conditions{{RequestsLost: true}, {RequestsLost: true, Latency: 1}, {RequestsLost: true, RepliesLost: true}} {
		require.NoError(t, p.Set(more))
		c.send("hole")
		_, err := c.receive(quietTime)
		require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	}
	require.NoError(t, p.Heal())
	_, err := c.receive(timeout)
	require.True(t, wasReset(err), "%v", err)
}
