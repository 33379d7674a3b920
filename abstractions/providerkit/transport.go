package providerkit

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
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

// RetryAfter is how long the answer with a header asks to wait, as Azure's services say
// it; 0 if it does not say, or not by the service's own clock.
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
