package faulttest

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// saying starts a server that replies to each byte that it receives with the byte answer.
func saying(t *testing.T, answer byte) (addr string) {
	t.Helper()
	listener := listen(t)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				for got := make([]byte, 1); ; {
					if _, err := conn.Read(got); err != nil {
						return
					}
					if _, err := conn.Write([]byte{answer}); err != nil {
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func dialled(t *testing.T, addr string) net.Conn {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// replied sends a byte over a connection and returns the server's answer.
func replied(t *testing.T, conn net.Conn) string {
	t.Helper()
	_, err := conn.Write([]byte{'?'})
	require.NoError(t, err)
	got := make([]byte, 1)
	_, err = io.ReadFull(conn, got)
	require.NoError(t, err)
	return string(got)
}

func TestRelayMovesNewConnectionsAlone(t *testing.T) {
	l := newRelay(t, saying(t, 'a'))
	old := dialled(t, l.addr)
	require.Equal(t, "a", replied(t, old))
	l.move(saying(t, 'b'))
	require.Equal(t, "b", replied(t, dialled(t, l.addr)))
	require.Equal(t, "a", replied(t, old))
}

func TestRelayForgetsWhatWasSilent(t *testing.T) {
	l := newRelay(t, saying(t, 'a'))
	conn := dialled(t, l.addr)
	require.Equal(t, "a", replied(t, conn))
	l.forgetAfter.Store(1) // any silence is longer
	_, err := conn.Write([]byte{'?'})
	require.NoError(t, err, "no reset")
	require.Eventually(t, func() bool { return l.forgotten.Load() == 1 }, 30*time.Second, time.Millisecond)
	l.forgetAfter.Store(0)
	_, err = conn.Write([]byte{'?'})
	require.NoError(t, err, "it stays forgotten")
	require.NoError(t, conn.SetReadDeadline(time.Now().Add(50*time.Millisecond)))
	_, err = conn.Read(make([]byte, 1))
	var network net.Error
	require.ErrorAs(t, err, &network)
	require.True(t, network.Timeout(), "no answer, and no farewell")
	require.Equal(t, "a", replied(t, dialled(t, l.addr)))
}
