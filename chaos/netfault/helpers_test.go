package netfault_test

import (
	"bufio"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/chaos/netfault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// timeout bounds the wait for an expected event. After quietTime without data a connection counts as
// silent.
const (
	timeout   = 20 * time.Second
	quietTime = 150 * time.Millisecond
)

// echo is a server that answers each line with "ok <line>", and records each line as a request
// that took effect.
type echo struct {
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	applied []string
	open    map[net.Conn]bool
	changed chan struct{}
}

func startEcho(t *testing.T) *echo {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	e := &echo{listener: listener, open: map[net.Conn]bool{}, changed: make(chan struct{}, 1)}
	e.wg.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			e.wg.Go(func() { e.serve(conn) })
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		e.mu.Lock()
		for conn := range e.open {
			_ = conn.Close()
		}
		e.mu.Unlock()
		e.wg.Wait()
	})
	return e
}

func (e *echo) serve(conn net.Conn) {
	e.update(func() { e.open[conn] = true })
	defer func() {
		_ = conn.Close()
		e.update(func() { delete(e.open, conn) })
	}()
	for lines := bufio.NewScanner(conn); lines.Scan(); {
		e.update(func() { e.applied = append(e.applied, lines.Text()) })
		if _, err := io.WriteString(conn, "ok "+lines.Text()+"\n"); err != nil {
			return
		}
	}
}

func (e *echo) update(what func()) {
	e.mu.Lock()
	what()
	e.mu.Unlock()
	select {
	case e.changed <- struct{}{}:
	default:
	}
}

// await waits for a condition of the server's state.
func (e *echo) await(t *testing.T, condition func() bool) {
	t.Helper()
	bound := time.After(timeout)
	for {
		e.mu.Lock()
		met := condition()
		e.mu.Unlock()
		if met {
			return
		}
		select {
		case <-e.changed:
		case <-bound:
			require.FailNow(t, "the server did not get there")
		}
	}
}

func (e *echo) has(line string) func() bool {
	return func() bool { return strings.Contains(strings.Join(e.applied, " "), line) }
}

// client is a connection through a proxy.
type client struct {
	t *testing.T
	net.Conn
	lines *bufio.Reader
}

func dial(t *testing.T, p *netfault.Proxy) *client {
	t.Helper()
	conn, err := net.DialTimeout("tcp", p.Addr(), timeout)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return &client{t, conn, bufio.NewReader(conn)}
}

func (c *client) send(line string) {
	c.t.Helper()
	_, err := io.WriteString(c, line+"\n")
	require.NoError(c.t, err)
}

// receive returns the next line, or an error if no line comes within the given time.
func (c *client) receive(within time.Duration) (string, error) {
	c.t.Helper()
	require.NoError(c.t, c.SetReadDeadline(time.Now().Add(within)))
	line, err := c.lines.ReadString('\n')
	return strings.TrimSpace(line), err
}

func (c *client) ask(line string) {
	c.t.Helper()
	c.send(line)
	answer, err := c.receive(timeout)
	require.NoError(c.t, err)
	require.Equal(c.t, "ok "+line, answer)
}

func start(t *testing.T) (*echo, *netfault.Proxy) {
	t.Helper()
	e := startEcho(t)
	p, err := netfault.Start(e.listener.Addr().String())
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return e, p
}
