package sqlkit

import "syscall"

// tcpUserTimeout is TCP_USER_TIMEOUT of linux/tcp.h, in milliseconds: see tcp(7).
const tcpUserTimeout = 18

func userTimeout(network, _ string, raw syscall.RawConn) error {
	if network == "unix" {
		return nil
	}
	return raw.Control(func(fd uintptr) {
		_ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(unconfirmed.Milliseconds())) // a hint
	})
}
