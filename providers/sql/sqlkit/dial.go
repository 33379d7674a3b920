package sqlkit

import (
	"net"
	"time"
)

// unconfirmed is after how long a connection fails whose other end confirms no data.
const unconfirmed = 10 * time.Second

// Dialer makes connections of our own. Their keep-alives find out within half a minute about a path that is lost. On Linux a connection also
// fails when the other end has confirmed no data for 10 s (TCP_USER_TIMEOUT).
func Dialer() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         userTimeout,
	}
}
