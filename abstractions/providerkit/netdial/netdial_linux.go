package netdial

import (
	"strings"
	"syscall"
	"time"
)

// unconfirmed is the time after which a connection fails if its other end acknowledges no data.
const unconfirmed = 10 * time.Second

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds. Package syscall lacks the
// constant.
const tcpUserTimeout = 18

// userTimeout sets TCP_USER_TIMEOUT, if the system allows the option.
func userTimeout(network, _ string, raw syscall.RawConn) error {
	if !strings.HasPrefix(network, "tcp") {
		return nil
	}
	return raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(unconfirmed.Milliseconds()))
	})
}
