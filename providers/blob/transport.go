package bloblease

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

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
