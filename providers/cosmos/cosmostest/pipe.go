package cosmostest

import (
	"context"
	"net"
	"net/http"
	"sync"
)

// Pipe connects clients to a handler without sockets, so that both can live in a
// synctest bubble.
type Pipe struct {
	server      http.Server
	connections chan net.Conn
	closed      chan struct{}
	once        sync.Once
	serving     sync.WaitGroup
}

// PipeURL is the address of an account behind a pipe.
const PipeURL = "http://localhost"

// NewPipe serves a handler until Close.
func NewPipe(handler http.Handler) *Pipe {
	p := &Pipe{server: http.Server{Handler: handler}, connections: make(chan net.Conn), closed: make(chan struct{})}
	p.serving.Go(func() { _ = p.server.Serve(pipeListener{p}) })
	return p
}

// Transport returns a transport for a client, which must close the idle connections.
func (p *Pipe) Transport() *http.Transport { return &http.Transport{DialContext: p.Dial} }

// Dial connects.
func (p *Pipe) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case p.connections <- server:
		return client, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Close ends the server and all connections.
func (p *Pipe) Close() error {
	p.once.Do(func() { close(p.closed) })
	err := p.server.Close()
	p.serving.Wait()
	return err
}

// pipeListener is the server's end of a pipe.
type pipeListener struct{ p *Pipe }

func (l pipeListener) Accept() (net.Conn, error) {
	select {
	case connection := <-l.p.connections:
		return connection, nil
	case <-l.p.closed:
		return nil, net.ErrClosed
	}
}

func (l pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

func (l pipeListener) Close() error { return nil }
