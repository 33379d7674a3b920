// Package wire counts the commands that a Redis client sends, below the client:
// on its connections, so that all client libraries are counted the same way. The server can't provide
// this count, because INFO also counts calls made by scripts.
package wire

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// Counter counts the commands sent on all connections opened by functions that Dial returned. The zero
// Counter is ready. It is safe for concurrent use.
type Counter struct{ commands atomic.Int64 }

// Commands returns how many commands were sent.
func (c *Counter) Commands() int64 { return c.commands.Load() }

// DialFunc opens a connection, like net.Dialer.DialContext.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dial wraps dial so that the commands sent on its connections are counted.
func (c *Counter) Dial(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return &conn{Conn: inner, counter: c}, nil
	}
}

// conn, like net.Conn, relies on the client to keep the commands of several
// goroutines apart in the stream.
type conn struct {
	net.Conn
	counter *Counter
	parser  parser
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.counter.commands.Add(c.parser.feed(b[:n]))
	return n, err
}

// SyscallConn lets go-redis check the socket as it does without the counter: its
// pool makes a system call each time it hands out a connection
// (internal/pool/conn_check.go), and that cost has to be measured.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if inner, ok := c.Conn.(syscall.Conn); ok {
		return inner.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
