package netdial

import (
	"net"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAConnectionThatNothingConfirmsFails(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = listener.Close() }()
	conn, err := New().DialContext(t.Context(), "tcp", listener.Addr().String())
	require.NoError(t, err)
	defer func() { _ = conn.Close() }()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		ms, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout)
		require.NoError(t, err)
		require.EqualValues(t, unconfirmed.Milliseconds(), ms)
	}))
}
