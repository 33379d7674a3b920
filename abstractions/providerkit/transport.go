package providerkit

import (
	"net"
	"net/http"
	"time"
)

// NewTransport makes a transport for a service that leases are renewed at. Go's own
// keeps two idle connections to a host: the renewals of some hundred leases would
// open new ones all the time. Without pings an HTTP/2 connection that is dead would
// take all requests, for as long as TCP hopes.
func NewTransport() *http.Transport {
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: time.Second},
	}
}
