package netfault

import (
	"net"
	"sync"
	"sync/atomic"
)

// pair is a client's connection and the one to the server that belongs to it.
type pair struct {
	proxy          *Proxy
	client, server *end
	ended          chan struct{} // closed when either end is
	once           sync.Once
	legs           sync.WaitGroup // the gates of both directions
	// lost says which directions have lost something.
	lost [2]atomic.Bool
	// orphaned says that the server's end is gone and that the client must not know.
	orphaned atomic.Bool
}

// end is one of the two connections. A link closes the end that it writes to when
// it is over, and with it the other.
type end struct {
	net.Conn
	pair *pair
}

func (e *end) Close() error {
	e.pair.finish()
	return nil
}

// Write takes what is for a server's end that has been closed under the client, who is
// not to hear of it.
func (e *end) Write(b []byte) (int, error) {
	n, err := e.Conn.Write(b)
	if err != nil && e == e.pair.server && e.pair.orphaned.Load() {
		return len(b), nil
	}
	return n, err
}

func newPair(p *Proxy, client, server net.Conn) *pair {
	both := &pair{proxy: p, ended: make(chan struct{})}
	both.client, both.server = &end{client, both}, &end{server, both}
	both.legs.Add(2)
	return both
}

// finish closes both ends. An orphaned pair goes on until its client has had enough.
func (p *pair) finish() {
	p.once.Do(func() {
		close(p.ended)
		_ = p.client.Conn.Close()
		_ = p.server.Conn.Close()
	})
}

// reset closes both ends without a farewell.
func (p *pair) reset() {
	p.once.Do(func() {
		close(p.ended)
		abort(p.client.Conn)
		abort(p.server.Conn)
	})
}

// abort makes TCP send a reset instead of a FIN.
func abort(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

// orphan closes the server's end alone.
func (p *pair) orphan() {
	p.orphaned.Store(true)
	_ = p.server.Conn.Close()
}

// join waits until nothing flows any more.
func (p *pair) join() {
	<-p.ended
	p.legs.Wait()
}

// wounded says that the connection has lost something under conditions that are
// over now.
func (p *pair) wounded(before, now Conditions) bool {
	for _, d := range []direction{request, reply} {
		if before.loses(d) && !now.loses(d) && p.lost[d].Load() {
			return true
		}
	}
	return false
}
