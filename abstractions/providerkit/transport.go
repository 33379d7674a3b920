package providerkit

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
)

// Transport is an http.Transport in which an abandoned request does not affect other
// requests.
//
// Go puts an HTTP/1 connection back before the caller has an answer without a body. If that
// caller's context ends just then, or that of the next one, Go closes the connection under
// the other, and reports the cause of that context to it: golang.org/issue/41600. Its request
// may have arrived, so it can't be sent again, and the cause may be an error of a lease.
//
// So a context that ends before the first byte of the answer closes the connection before Go
// reads on; one that ends later ends the request when the header has been read. And a
// request on a connection waits until the one before it has its answer.
type Transport struct {
	http.Transport
	conns sync.Map
}

// RoundTrip sends a request, once. An error says no more of a context than that the
// request's own has ended.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	return exchange(t.Transport.RoundTrip, &t.conns, req)
}

// NewTransport makes a transport for a service that leases are renewed at. Go's own
// keeps two idle connections to a host: the renewals of some hundred leases would
// open new ones all the time. Without pings a dead HTTP/2 connection would take all
// requests until TCP times out.
func NewTransport() *Transport {
	return &Transport{Transport: http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 5 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: time.Second},
	}}
}

// RetryAfter returns how long an answer with this header asks to wait, in the form of
// Azure's services; 0 if it does not say, or not by the service's own clock.
func RetryAfter(header http.Header) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.ParseFloat(header.Get(name), 64); err == nil && ms >= 0 && ms <= float64(time.Hour.Milliseconds()) {
			return time.Duration(ms * float64(time.Millisecond))
		}
	}
	text := header.Get("Retry-After")
	if n, err := strconv.ParseUint(text, 10, 31); err == nil {
		return time.Duration(n) * time.Second
	}
	at, err := http.ParseTime(text)
	now, errNow := http.ParseTime(header.Get("Date"))
	if err != nil || errNow != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// Date is the service's time of the reply with a header: see Item.Now. Without one there
// is nothing to be said of a lease.
func Date(header http.Header) (time.Time, error) {
	date, err := http.ParseTime(header.Get("Date"))
	if err != nil {
		return time.Time{}, fmt.Errorf("%w: a reply without a Date", abstractions.ErrUnavailable)
	}
	return date.UTC(), nil
}
