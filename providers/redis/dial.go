package redislease

import (
	"context"
	"crypto/tls"
	"net"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit/netdial"
)

// dialer returns the dial function of clients that Open makes. go-redis prints each failed dial to standard error, not to the
// application's logger. So a failed dial returns a connection whose first use returns the error.
func dialer(config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := netdial.New().DialContext
	if config != nil {
		dial = (&tls.Dialer{NetDialer: netdial.New(), Config: config}).DialContext
	}
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return failedConn{dialError{err}}, nil //nolint:nilerr // see above
		}
		return conn, nil
	}
}

// dialError wraps the dial's error, since go-redis unwraps one level (redis.go, initPooledConn).
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// failedConn is a connection whose dial failed.
type failedConn struct{ err error }

func (c failedConn) Read([]byte) (int, error)       { return 0, c.err }
func (c failedConn) Write([]byte) (int, error)      { return 0, c.err }
func (failedConn) Close() error                     { return nil }
func (failedConn) LocalAddr() net.Addr              { return &net.TCPAddr{} }
func (failedConn) RemoteAddr() net.Addr             { return &net.TCPAddr{} }
func (failedConn) SetDeadline(time.Time) error      { return nil }
func (failedConn) SetReadDeadline(time.Time) error  { return nil }
func (failedConn) SetWriteDeadline(time.Time) error { return nil }
