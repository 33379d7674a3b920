package wire

import (
	"context"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// Counter counts what is sent on all connections made through it. The zero
// Counter is ready. It is safe for concurrent use.
type Counter struct {
	commands, bytes atomic.Int64
}

// Commands returns how many commands were sent.
func (c *Counter) Commands() int64 { return c.commands.Load() }

// Bytes returns how many bytes were sent.
func (c *Counter) Bytes() int64 { return c.bytes.Load() }

// DialFunc opens a connection, as net.Dialer.DialContext does.
type DialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// Dial returns dial, with what is sent on its connections counted.
func (c *Counter) Dial(dial DialFunc) DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		inner, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return c.Wrap(inner), nil
	}
}

// Wrap counts what is sent on one connection. Like net.Conn itself it leaves it
// to the client that commands of several goroutines don't mix in the stream.
func (c *Counter) Wrap(inner net.Conn) net.Conn { return &conn{Conn: inner, counter: c} }

type conn struct {
	net.Conn
	counter *Counter
	parser  parser
}

func (c *conn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	c.counter.bytes.Add(int64(n))
	if commands := c.parser.feed(b[:n]); commands > 0 {
		c.counter.commands.Add(commands)
	}
	return n, err
}

// SyscallConn lets go-redis look at the socket, as it does with one that is
// not counted: its pool checks a connection's health by a system call each time
// it hands one out (internal/pool/conn_check.go), which has to stay in the bill.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	if inner, ok := c.Conn.(syscall.Conn); ok {
		return inner.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
