package providertest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
)

// Silent is the address of a server that takes connections and says nothing.
func Silent(t testing.TB) string { return listen(t).Addr().String() }

func listen(t testing.TB) net.Listener {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// relay is a way to a server. When it is cut its connections stay open, and nothing arrives.
type relay struct {
	addr string
	cut  atomic.Bool
}

func newRelay(t testing.TB, target string) *relay {
	t.Helper()
	listener, end, all := listen(t), make(chan struct{}), sync.WaitGroup{}
	l := &relay{addr: listener.Addr().String()}
	all.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", target)
			if err != nil {
				_ = near.Close()
				continue
			}
			all.Go(func() { l.carry(far, near) })
			all.Go(func() { l.carry(near, far) })
			all.Go(func() {
				<-end
				_ = near.Close()
				_ = far.Close()
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		close(end)
		all.Wait()
	})
	return l
}

func (l *relay) carry(to, from net.Conn) {
	piece := make([]byte, 1<<15)
	for {
		n, err := from.Read(piece)
		if l.cut.Load() {
			return
		}
		if _, lost := to.Write(piece[:n]); err != nil || lost != nil {
			_ = to.Close()
			_ = from.Close()
			return
		}
	}
}
