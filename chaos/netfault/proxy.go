package netfault

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// dialTimeout bounds the dial of the server, which is on this machine or close by.
const dialTimeout = 5 * time.Second

// Proxy forwards connections to a server, under conditions that can be changed at any time.
// Start creates a Proxy. A Proxy is safe for concurrent use.
type Proxy struct {
	target, addr string

	links sync.WaitGroup // the accept loop and the pairs

	mu         sync.Mutex
	conditions Conditions
	changed    chan struct{} // closed and replaced when the conditions change
	listener   net.Listener  // nil while down
	pairs      map[*pair]struct{}
	resets     int
	closed     bool
}

// Start starts a proxy for the server at target, "host:port", on a loopback port
// of its own. The server need not run yet.
func Start(target string) (*Proxy, error) {
	if _, _, err := net.SplitHostPort(target); err != nil {
		return nil, fmt.Errorf("netfault: the target: %w", err)
	}
	p := &Proxy{target: target, changed: make(chan struct{}), pairs: map[*pair]struct{}{}}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.listen("127.0.0.1:0"); err != nil {
		return nil, err
	}
	p.addr = p.listener.Addr().String()
	return p, nil
}

// Addr returns the address for clients, "127.0.0.1:port". It never changes.
func (p *Proxy) Addr() string { return p.addr }

// Set changes the conditions, including those of open connections.
func (p *Proxy) Set(c Conditions) error {
	if err := c.validate(); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return errClosed
	}
	if !c.Down && p.listener == nil {
		if err := p.listen(p.addr); err != nil {
			return err
		}
	}
	before := p.conditions
	p.conditions = c
	close(p.changed)
	p.changed = make(chan struct{})
	if c.Down {
		p.stopListening()
	}
	for pair := range p.pairs {
		if c.Down || pair.lostData(before, c) {
			pair.reset()
		}
	}
	return nil
}

var errClosed = errors.New("netfault: the proxy is closed")

// Heal ends all conditions, like Set(Conditions{}).
func (p *Proxy) Heal() error { return p.Set(Conditions{}) }

// Reset resets all connections, including those that are still being set up. New connections work.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.resets++
	for pair := range p.pairs {
		pair.reset()
	}
}

// HalfOpen closes the server's end of all connections. Their clients are not
// notified and receive nothing more, so they must time out. New connections work.
func (p *Proxy) HalfOpen() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for pair := range p.pairs {
		pair.halfOpen()
	}
}

// Connections returns the number of open connections.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.pairs)
}

// Close resets all connections and ends the proxy.
func (p *Proxy) Close() error {
	p.mu.Lock()
	p.closed = true
	p.stopListening()
	p.mu.Unlock()
	p.Reset()
	p.links.Wait()
	return nil
}

// listen starts to accept connections. Caller holds mu.
func (p *Proxy) listen(addr string) error {
	listener, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		return fmt.Errorf("netfault: %w", err)
	}
	p.listener = listener
	p.links.Go(func() { p.accept(listener) })
	return nil
}

// stopListening refuses connections. Caller holds mu.
func (p *Proxy) stopListening() {
	if p.listener != nil {
		_ = p.listener.Close()
		p.listener = nil
	}
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		p.links.Go(func() { p.connect(client) })
	}
}

// connect connects a client to the server, and returns when the connection ends.
func (p *Proxy) connect(client net.Conn) {
	p.mu.Lock()
	resets := p.resets
	p.mu.Unlock()
	dialer := net.Dialer{Timeout: dialTimeout}
	server, err := dialer.Dial("tcp", p.target)
	if err != nil {
		_ = abort(client)
		return
	}
	pair := newPair(p, client, server)
	if !p.register(pair, resets) {
		pair.reset()
		return
	}
	pair.run()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.pairs, pair)
}

// register adds a pair, unless all connections were reset while the pair was set up.
func (p *Proxy) register(pair *pair, resets int) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed || p.conditions.Down || p.resets != resets {
		return false
	}
	p.pairs[pair] = struct{}{}
	return true
}

// now returns the conditions, and a channel that is closed when they change.
func (p *Proxy) now() (Conditions, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.conditions, p.changed
}

// Conditions are the state of the network between client and server. The zero value is a network
// without faults.
type Conditions struct {
	// Latency and a random part of Jitter are added to each reply.
	Latency, Jitter time.Duration
	// RequestsLost drops the data that clients send, and RepliesLost the data that the server
	// sends. When the loss ends, a connection that has lost data is reset, since TCP does not
	// skip data.
	RequestsLost, RepliesLost bool
	// Partitioned holds data back in both directions until the partition ends, so requests
	// arrive late. New connections are accepted, but transfer nothing.
	Partitioned bool
	// Down resets all connections and refuses new ones.
	Down bool
}

func (c Conditions) validate() error {
	for field, d := range map[string]time.Duration{"Latency": c.Latency, "Jitter": c.Jitter} {
		if d < 0 {
			return &abstractions.InvalidError{Field: "Conditions." + field, Value: d, Want: "0 or more"}
		}
	}
	return nil
}

// direction is the direction of data on a link.
type direction int

const (
	request direction = iota
	reply
)

// loses reports whether a direction drops its data.
func (c Conditions) loses(d direction) bool {
	return d == request && c.RequestsLost || d == reply && c.RepliesLost
}

// delay returns the delay of a chunk.
func (c Conditions) delay(d direction) time.Duration {
	if d == request {
		return 0
	}
	delay := c.Latency
	if c.Jitter > 0 {
		delay += rand.N(c.Jitter)
	}
	return delay
}
