package netdial

import (
	"strings"
	"syscall"
	"time"
)

// unconfirmed is after how long a connection fails whose other end confirms no byte that was sent.
const unconfirmed = 10 * time.Second

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds. Package syscall lacks the name.
const tcpUserTimeout = 18

// userTimeout sets the option, if the system allows the option.
func userTimeout(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	return raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(unconfirmed.Milliseconds()))
	})
}
