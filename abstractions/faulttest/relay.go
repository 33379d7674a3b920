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

// relay forwards connections to a server. When it is cut, its connections stay open, and
// nothing arrives.
type relay struct {
	addr   string
	target atomic.Pointer[string] // of new connections
	cut    atomic.Bool
	// forgets is the silence, in nanoseconds, after which a connection carries nothing more and stays
	// open, as behind a gateway that has dropped its state. Zero: the relay forgets nothing.
	forgets atomic.Int64
	forgot  atomic.Int64 // forgotten connections
	close   func()       // closes all connections
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
			w := &way{relay: l}
			w.last.Store(int64(time.Since(started)))
			all.Go(func() { w.carry(far, near) })
			all.Go(func() { w.carry(near, far) })
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

// way is a connection through a relay.
type way struct {
	*relay
	last   atomic.Int64 // when data was last carried, since started
	silent atomic.Bool  // the relay has forgotten the connection
}

// started is the origin of a monotonic clock.
var started = time.Now()

func (w *way) carry(to, from net.Conn) {
	piece := make([]byte, 1<<15)
	for {
		n, err := from.Read(piece)
		if w.cut.Load() || w.forgotten() {
			return
		}
		if _, lost := to.Write(piece[:n]); err != nil || lost != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}

// forgotten records that data has arrived, and reports whether the relay has forgotten the
// connection.
func (w *way) forgotten() bool {
	now, limit := int64(time.Since(started)), w.forgets.Load()
	if before := w.last.Swap(now); limit > 0 && now-before > limit && !w.silent.Swap(true) {
		w.forgot.Add(1)
	}
	return w.silent.Load()
}
