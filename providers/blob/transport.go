package bloblease

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// newTransport is the default of Options.ClientOptions.Transport. Go's own keeps
// two idle connections to a host, azcore's ten: the renewals of some hundred
// leases would open new ones all the time.
func newTransport() *http.Transport {
	dialer := &net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   256,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		TLSClientConfig:       &tls.Config{MinVersion: tls.VersionTLS12},
		// Without pings a connection that is dead would take all requests, for as long
		// as TCP hopes. The service itself speaks HTTP/1.1; a proxy before it may not.
		HTTP2: &http.HTTP2Config{SendPingTimeout: 2 * time.Second, PingTimeout: time.Second},
	}
}

// roundTripper is a policy.Transporter without what http.Client adds to it:
// redirects, which the service does not send, and URLs in errors.
type roundTripper struct{ *http.Transport }

func (r roundTripper) Do(request *http.Request) (*http.Response, error) { return r.RoundTrip(request) }

// discreet is a transport whose errors don't quote the URL, which has the
// signature of a SAS in it.
type discreet struct{ policy.Transporter }

func (d discreet) Do(request *http.Request) (*http.Response, error) {
	response, err := d.Transporter.Do(request)
	return response, withoutURL(err)
}

// withoutURL is what stands behind an error of net/http.
func withoutURL(err error) error {
	var quoting *url.Error
	if errors.As(err, &quoting) {
		return quoting.Err
	}
	return err
}
