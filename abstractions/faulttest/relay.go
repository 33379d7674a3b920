package faulttest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Silent returns the address of a server that accepts connections and sends nothing.
func Silent(t testing.TB) string { return listen(t).Addr().String() }

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// relay forwards connections to a server. When it is cut, its connections stay open but deliver no data.
type relay struct {
	addr   string
	target atomic.Pointer[string] // of new connections
	cut    atomic.Bool
	// forgetAfter is the silence, in nanoseconds, after which the relay stops forwarding a connection but leaves it open, like a
	// gateway that has dropped its state. Zero means never.
	forgetAfter atomic.Int64
	forgotten   atomic.Int64 // forgotten connections
	close       func()       // closes all connections
}

func newRelay(t testing.TB, target string) *relay {
	t.Helper()
	listener, end, all := listen(t), make(chan struct{}), sync.WaitGroup{}
	l := &relay{addr: listener.Addr().String()}
	l.move(target)
	all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", *l.target.Load())
			if err != nil {
				_ = near.Close()
				continue
			}
			w := &connection{relay: l}
			w.last.Store(int64(time.Since(clockStart)))
			all.Go(func() { w.forward(far, near) })
			all.Go(func() { w.forward(near, far) })
			all.Go(func() {
				<-end
				_ = near.Close()
				_ = far.Close()
			})
		}
	})
	l.close = sync.OnceFunc(func() {
		_ = listener.Close()
		close(end)
		all.Wait()
	})
	t.Cleanup(l.close)
	return l
}

// move directs new connections to another server. Open connections keep their server.
func (l *relay) move(target string) { l.target.Store(&target) }

// connection is a connection through a relay.
type connection struct {
	*relay
	last   atomic.Int64 // when data last arrived, since clockStart
	silent atomic.Bool  // the relay has forgotten the connection
}

// clockStart is the origin of a monotonic clock.
var clockStart = time.Now()

func (w *connection) forward(to, from net.Conn) {
	piece := make([]byte, 1<<15)
	for {
		n, err := from.Read(piece)
		if w.cut.Load() || w.recordData() {
			return
		}
		if _, lost := to.Write(piece[:n]); err != nil || lost != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}

// recordData records that data has arrived, and reports whether the relay has forgotten the
// connection.
func (w *connection) recordData() bool {
	now, limit := int64(time.Since(clockStart)), w.forgetAfter.Load()
	if before := w.last.Swap(now); limit > 0 && now-before > limit && !w.silent.Swap(true) {
		w.forgotten.Add(1)
	}
	return w.silent.Load()
}
