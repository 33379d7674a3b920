package providerkit

import (
	"net"
	"time"
)

// unconfirmed is after how long a connection fails whose other end confirms no byte that was sent.
const unconfirmed = 10 * time.Second

// NewDialer returns a dialer for connections that a provider makes by itself. Keep-alives find a path that is lost within half a
// minute. On Linux a connection also fails when the other end has confirmed no byte for 10 s (TCP_USER_TIMEOUT, tcp(7)).
func NewDialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         userTimeout,
	}
}
