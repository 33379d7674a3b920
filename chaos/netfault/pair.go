package netfault

import (
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// pair is a client's connection and the matching connection to the server.
type pair struct {
	proxy          *Proxy
	client, server net.Conn
	ended          chan struct{} // closed when either connection is closed
	once           sync.Once
	// lost marks the directions that have lost data.
	lost [2]atomic.Bool
	// halfOpened says that the server's end is closed and that the client must not be notified.
	halfOpened atomic.Bool
}

func newPair(p *Proxy, client, server net.Conn) *pair {
	return &pair{proxy: p, client: client, server: server, ended: make(chan struct{})}
}

// chunk is the data of one read.
type chunk struct {
	data []byte
	read time.Time
}

// maxChunks bounds the chunks that wait behind a delayed chunk, so that latency does not limit
// throughput.
const maxChunks = 1024

// run passes on the data from both ends, until one end closes its connection.
func (p *pair) run() {
	var all sync.WaitGroup
	for d, from := range []net.Conn{p.client, p.server} {
		to := []net.Conn{p.server, p.client}[d]
		chunks := make(chan chunk, maxChunks)
		all.Go(func() { p.read(from, chunks) })
		all.Go(func() { p.write(direction(d), to, chunks) })
	}
	all.Wait()
}

func (p *pair) read(from net.Conn, chunks chan<- chunk) {
	defer close(chunks)
	for buffer := make([]byte, 32<<10); ; {
		n, err := from.Read(buffer)
		if n > 0 {
			select {
			case chunks <- chunk{append([]byte(nil), buffer[:n]...), time.Now()}:
			case <-p.ended:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// write passes chunks on, and closes both connections after the last chunk. After HalfOpen neither
// direction closes the client's connection.
func (p *pair) write(d direction, to net.Conn, chunks <-chan chunk) {
	defer p.closeBoth()
	for c := range chunks {
		if !p.awaitDue(d, c.read) {
			continue
		}
		if _, err := to.Write(c.data); err != nil && !p.halfOpened.Load() {
			return
		}
	}
	if d == reply && p.halfOpened.Load() {
		<-p.ended
	}
}

// awaitDue waits until a chunk that was read at the given time is due, and reports whether to
// forward the chunk.
func (p *pair) awaitDue(d direction, sent time.Time) bool {
	var delay time.Duration
	for decided := false; ; {
		conditions, changed := p.proxy.now()
		var due <-chan time.Time
		switch {
		case p.halfOpened.Load():
			return false
		case conditions.loses(d):
			p.lost[d].Store(true)
			if c, _ := p.proxy.now(); !c.loses(d) { // the conditions have just changed, and Set has not seen this loss
				p.reset()
			}
			return false
		case !conditions.Partitioned:
			if !decided {
				delay, decided = conditions.delay(d), true
			}
			left := delay - time.Since(sent)
			if left <= 0 {
				return true
			}
			due = time.After(left)
		}
		select {
		case <-due:
		case <-changed:
		case <-p.ended:
			return false
		}
	}
}

// closeBoth closes both connections.
func (p *pair) closeBoth() { p.end(net.Conn.Close) }

// reset closes both connections with a TCP reset.
func (p *pair) reset() { p.end(abort) }

func (p *pair) end(with func(net.Conn) error) {
	p.once.Do(func() {
		close(p.ended)
		_ = with(p.client)
		_ = with(p.server)
	})
}

// abort makes TCP send a reset instead of a FIN.
func abort(c net.Conn) error {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	return c.Close()
}

// halfOpen closes only the server's end.
func (p *pair) halfOpen() {
	p.halfOpened.Store(true)
	_ = p.server.Close()
}

// lostData reports whether the connection has lost data under conditions that have ended.
func (p *pair) lostData(before, now Conditions) bool {
	for _, d := range []direction{request, reply} {
		if before.loses(d) && !now.loses(d) && p.lost[d].Load() {
			return true
		}
	}
	return false
}
