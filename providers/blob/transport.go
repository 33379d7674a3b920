package bloblease

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
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

// redactingTransport is a transport whose errors don't quote the URL, which has the
// signature of a SAS in it.
type redactingTransport struct{ policy.Transporter }

func (t redactingTransport) Do(request *http.Request) (*http.Response, error) {
	response, err := t.Transporter.Do(request)
	return response, withoutURL(err)
}

// withoutURL is what stands behind an error of net/http.
func withoutURL(err error) error {
	if quoting, ok := errors.AsType[*url.Error](err); ok {
		return quoting.Err
	}
	return err
}

// tokenTimeout bounds a request for a token. Other calls wait for the same token, and
// the context of the one that has asked for it may have no deadline.
const tokenTimeout = time.Minute

// boundedCredential is a source of tokens with that bound.
type boundedCredential struct{ azcore.TokenCredential }

func (c boundedCredential) GetToken(ctx context.Context, options policy.TokenRequestOptions) (azcore.AccessToken, error) {
	ctx, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	return c.TokenCredential.GetToken(ctx, options)
}
