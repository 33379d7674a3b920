package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// accept starts a listener on loopback, which discards its input, and returns its address.
func accept(t *testing.T) string {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	done := make(chan struct{})
	t.Cleanup(func() {
		listener.Close()
		<-done
	})
	go func() {
		defer close(done)
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, c)
			c.Close()
		}
	}()
	return listener.Addr().String()
}

func TestConnCountsWhatItSends(t *testing.T) {
	var counter Counter
	c, err := counter.Dial((&net.Dialer{}).DialContext)(t.Context(), "tcp", accept(t))
	require.NoError(t, err)
	stream := command("SET", "k", "v") + command("GET", "k")
	_, err = io.WriteString(c, stream[:7])
	require.NoError(t, err)
	assert.EqualValues(t, 1, counter.Commands())
	_, err = io.WriteString(c, stream[7:])
	require.NoError(t, err)
	assert.EqualValues(t, 2, counter.Commands())
	require.NoError(t, c.Close())
}

// TestConnShowsItsSocket: a client that checks the socket's health must find the
// socket. Otherwise the client would do less work than without the counter.
func TestConnShowsItsSocket(t *testing.T) {
	var counter Counter
	c, err := counter.Dial((&net.Dialer{}).DialContext)(t.Context(), "tcp", accept(t))
	require.NoError(t, err)
	defer c.Close()
	socket, ok := c.(syscall.Conn)
	require.True(t, ok)
	raw, err := socket.SyscallConn()
	require.NoError(t, err)
	looked := false
	require.NoError(t, raw.Control(func(uintptr) { looked = true }))
	assert.True(t, looked)
}

func TestConnWithoutSocket(t *testing.T) {
	var counter Counter
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	_, err := (&conn{Conn: here, counter: &counter}).SyscallConn()
	assert.ErrorIs(t, err, errors.ErrUnsupported)
}

func TestDialReportsFailure(t *testing.T) {
	var counter Counter
	refused := errors.New("refused")
	dial := counter.Dial(func(context.Context, string, string) (net.Conn, error) { return nil, refused })
	c, err := dial(t.Context(), "tcp", "nowhere")
	assert.ErrorIs(t, err, refused)
	assert.Nil(t, c)
}
