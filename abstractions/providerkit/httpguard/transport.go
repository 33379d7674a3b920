package httpguard

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
)

// Transport is an http.Transport in which an abandoned request does not affect other
// requests.
//
// If an answer has no body, Go returns its HTTP/1 connection to the pool before the caller
// has the answer. For a moment two requests then use one connection. If the context of either request ends
// just then, Go closes the connection under the other request, and returns the cause of the ended
// context as the other request's error: golang.org/issue/41600. The other request may have arrived, so
// it can't be sent again, and the cause may be an error of a lease.
//
// So a context that ends before the first byte of the answer closes the connection before Go
// reads on; a context that ends later ends the request when the header has been read. And a
// request on a connection waits until the request before it has its answer.
type Transport struct {
	http.Transport
	conns sync.Map
	live  *livefile.Transport // unless nil, sends in place of Transport
}

// UseTLS takes the TLS configuration of each new connection from files. Call it before the first request.
func (t *Transport) UseTLS(files *livefile.TLS) { t.live = files.Transport(&t.Transport) }

// CloseIdleConnections closes the connections that no request uses.
func (t *Transport) CloseIdleConnections() {
	t.Transport.CloseIdleConnections()
	if t.live != nil {
		t.live.CloseIdleConnections()
	}
}

// RoundTrip sends a request, once. If the error reports the end of a context, that context is
// the request's own.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	if t.live != nil {
		return exchange(t.live.RoundTrip, &t.conns, req)
	}
	return exchange(t.Transport.RoundTrip, &t.conns, req)
}

// NewTransport makes a transport for a service at which leases are renewed. Go's
// default transport keeps two idle connections to a host: the renewals of a few
// hundred leases would keep opening new ones. Without pings a dead HTTP/2
// connection would take all requests until TCP times out.
func NewTransport() *Transport {
	return &Transport{Transport: http.Transport{
		Proxy:                 Proxy,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: time.Second},
	}}
}
