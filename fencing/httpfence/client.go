package httpfence

import (
	"context"
	"net/http"
	"net/url"
	"strconv"

	"github.com/distributedleasing/leasing/fencing"
)

// Holder has a fencing token, like every leasing.Lease. If it also has a method Name() string,
// requests carry that name.
type Holder interface {
	Token() int64
}

// Token is a Holder with a fixed token, for a process that uses the token of
// another process's lease.
type Token int64

// Token returns the number.
func (t Token) Token() int64 { return int64(t) }

type holderKey struct{}

// WithLease returns a context whose requests carry the lease's token, when they
// are sent through a Transport. Derive it from the lease's own context, so that
// a request ends with the lease:
//
//	ctx := httpfence.WithLease(lease.Context(), lease)
//	request, err := http.NewRequestWithContext(ctx, http.MethodPut, url, body)
func WithLease(ctx context.Context, lease Holder) context.Context {
	return context.WithValue(ctx, holderKey{}, lease)
}

// Transport is an http.RoundTripper that adds the token, and the name of the
// lease if known, to each request. They come from the request's context (see
// WithLease), or else from Lease. A request with neither is sent unchanged.
//
// If a request's header already has a different token, RoundTrip returns an
// error that matches leasing.ErrInvalid and sends nothing. The caller's
// request is never changed. Responses are returned unchanged, since a
// RoundTripper must not interpret them: see CheckResponse.
//
// The token is also sent after a redirect. It is not a secret, and grants no access on its own.
//
// A Transport is safe for concurrent use if Base is; don't change its fields once it is in use.
type Transport struct {
	Base  http.RoundTripper // nil means http.DefaultTransport
	Lease Holder            // for requests whose context carries none; may be nil
}

// RoundTrip sends a request with its token.
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	lease, _ := req.Context().Value(holderKey{}).(Holder)
	if lease == nil {
		lease = t.Lease
	}
	if lease == nil {
		return t.base().RoundTrip(req)
	}
	// A RoundTripper must not change its request, so fenced is a copy.
	fenced := req.Clone(req.Context())
	if fenced.Header == nil {
		fenced.Header = make(http.Header)
	}
	if err := putLease(fenced.Header, lease); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // a RoundTripper must always close the body
		}
		return nil, err
	}
	return t.base().RoundTrip(fenced)
}

// CloseIdleConnections closes the idle connections of Base. http.Client calls this method.
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

func putLease(header http.Header, lease Holder) error {
	token := lease.Token()
	if err := fencing.Check("", token, 0); err != nil {
		return err
	}
	if err := putHeader(header, HeaderToken, strconv.FormatInt(token, 10)); err != nil {
		return err
	}
	named, ok := lease.(interface{ Name() string })
	if !ok || named.Name() == "" {
		return nil
	}
	return putHeader(header, HeaderName, url.PathEscape(named.Name()))
}
