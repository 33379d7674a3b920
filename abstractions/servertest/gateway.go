package servertest

import (
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Gateway is a proxy in front of a server. The proxy can silently lose the state of its connections. Make one with
// NewGateway.
type Gateway struct {
	listener net.Listener
	epoch    atomic.Int64 // connections of an earlier epoch no longer forward data

	mu    sync.Mutex
	conns []net.Conn
}

// NewGateway starts a gateway to a server. The gateway closes when the test ends.
func NewGateway(t testing.TB, server string) *Gateway {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0") //nolint:noctx // it does not wait
	check(t, err)
	g := &Gateway{listener: listener}
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_ = listener.Close()
		g.mu.Lock()
		for _, conn := range g.conns {
			_ = conn.Close()
		}
		g.mu.Unlock()
		serving.Wait()
	})
	serving.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			behind, err := net.Dial("tcp", server) //nolint:noctx // on loopback
			if err != nil {
				_ = client.Close()
				continue
			}
			g.mu.Lock()
			g.conns = append(g.conns, client, behind)
			g.mu.Unlock()
			epoch := g.epoch.Load()
			for _, pipe := range [][2]net.Conn{{client, behind}, {behind, client}} {
				serving.Go(func() {
					_, _ = io.Copy(gatewayWriter{pipe[1], g, epoch}, pipe[0])
					_ = client.Close()
					_ = behind.Close()
				})
			}
		}
	})
	return g
}

// Addr returns the address for clients.
func (g *Gateway) Addr() string { return g.listener.Addr().String() }

// Forget loses the existing connections: they stay open, but their data no longer arrives. New connections work.
func (g *Gateway) Forget() { g.epoch.Add(1) }

type gatewayWriter struct {
	to    io.Writer
	g     *Gateway
	epoch int64
}

func (p gatewayWriter) Write(data []byte) (int, error) {
	if p.g.epoch.Load() != p.epoch {
		return len(data), nil
	}
	return p.to.Write(data)
}
