// Package netdial has the dialer of providers.
package netdial

import (
	"net"
	"time"
)

// New returns a dialer for connections that a provider opens itself. Keep-alives detect a lost path within half a
// minute. On Linux a connection also fails when the other end has acknowledged no data for 10 s (TCP_USER_TIMEOUT,
// tcp(7)).
func New() *net.Dialer {
	return &net.Dialer{
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3},
		Control:         userTimeout,
	}
}
