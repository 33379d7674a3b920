package bloblease

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/stretchr/testify/require"
)

// gateway is a proxy in front of a service. It answers all requests, or those of one kind, in the
// service's place.
type gateway struct {
	next    http.RoundTripper
	which   verb // "" means all
	instead *foreignAnswer
	sent    atomic.Int32 // answers in the service's place
	visits  atomic.Int32 // to the page of the redirect
}

// foreignAnswer is an answer that does not come from the service.
type foreignAnswer struct {
	status int
	body   string
	header http.Header
}

const page = "<html><body>Please log in.</body></html>"

func (g *gateway) RoundTrip(req *http.Request) (*http.Response, error) {
	f := g.instead
	switch {
	case req.URL.Host == "login":
		g.visits.Add(1)
		f = &foreignAnswer{200, page, http.Header{"Etag": {`"5f3e-1c"`}}}
	case f == nil || g.which != "" && g.which != verbOf(req):
		return g.next.RoundTrip(req)
	}
	g.sent.Add(1)
	header := http.Header{"Date": {"Thu, 26 Nov 2026 19:56:29 GMT"}}
	for name, values := range f.header {
		header[name] = values
	}
	answer := &http.Response{
		StatusCode: f.status, Header: header, Body: io.NopCloser(strings.NewReader(f.body)), ContentLength: int64(len(f.body)),
		Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}
	if req.Method == http.MethodHead {
		answer.Body = http.NoBody
	}
	return answer, nil
}

// openBehindGateway returns a provider whose requests go through a gateway.
func (b *bed) openBehindGateway() (*Provider, *gateway) {
	transport := httpguard.NewTransport()
	b.t.Cleanup(transport.CloseIdleConnections)
	g := &gateway{next: transport}
	o := b.options
	o.ClientOptions.Transport = &http.Client{Transport: g}
	return opener{o, true}.open(b.t), g
}

// html returns an answer with a page and the headers of a file.
func html(status int) *foreignAnswer {
	return &foreignAnswer{status, page, http.Header{"Content-Type": {"text/html"}, "Etag": {`"5f3e-1c"`}, "Last-Modified": {"Thu, 26 Nov 2026 19:56:29 GMT"}}}
}

// forgedHeader returns the headers of a service's answer, and the given headers.
func forgedHeader(headers ...string) http.Header {
	all := http.Header{"X-Ms-Request-Id": {"1234"}, "X-Ms-Version": {"2026-12-06"}, "Etag": {`"0x1"`}, "Last-Modified": {"Thu, 26 Nov 2026 19:56:29 GMT"}}
	for i := 0; i < len(headers); i += 2 {
		all.Set(headers[i], headers[i+1])
	}
	return all
}

// everyVerbIsUnknown answers each kind of request of each call in the service's place, and
// checks that the outcome is unknown.
func everyVerbIsUnknown(t *testing.T, b *bed, instead *foreignAnswer, kinds ...verb) {
	t.Helper()
	p, gate := b.openBehindGateway()
	name := abstractions.NewID()
	g, err := p.Acquire(t.Context(), acquireRequest(name, "a"))
	require.NoError(t, err)
	stateless := g
	stateless.State = nil
	for what, call := range map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error {
			_, err := p.Acquire(ctx, acquireRequest(abstractions.NewID(), "b"))
			return err
		},
		"renew":             func(ctx context.Context) error { _, err := p.Renew(ctx, renewRequest(g)); return err },
		"renew by a read":   func(ctx context.Context) error { _, err := p.Renew(ctx, renewRequest(stateless)); return err },
		"release":           func(ctx context.Context) error { return p.Release(ctx, releaseRequest(g)) },
		"release by a read": func(ctx context.Context) error { return p.Release(ctx, releaseRequest(stateless)) },
		"break": func(ctx context.Context) error {
			_, err := p.Break(ctx, abstractions.BreakRequest{Name: name})
			return err
		},
		"inspect": func(ctx context.Context) error {
			_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: name})
			return err
		},
		"list": func(ctx context.Context) error { _, err := p.List(ctx, abstractions.ListRequest{}); return err },
		"ping": p.Ping,
	} {
		for _, kind := range kinds {
			if kind != "" && (what != "acquire" && what != "renew" && what != "renew by a read") { // a release or a break that is cut short ends the lease
				continue
			}
			before := gate.sent.Load()
			gate.which, gate.instead = kind, instead
			err := call(t.Context())
			gate.instead = nil
			if gate.sent.Load() == before {
				require.NotEmpty(t, kind)
				require.NoError(t, err)
				continue
			}
			text := fmt.Sprintf("%s, %s, %v: %v", what, kind, instead, err)
			require.Error(t, err, text)
			require.True(t, isUnknown(err), text)
			require.False(t, abstractions.NotApplied(err), text)
			for _, certain := range sentinels[1:] {
				require.NotErrorIs(t, err, certain, text)
			}
			require.Contains(t, err.Error(), "a proxy or gateway may stand before", text)
			require.Contains(t, err.Error(), fmt.Sprint(instead.status), text)
			require.NotContains(t, err.Error(), "\n", text)
		}
	}
	require.Zero(t, gate.visits.Load())
	g, err = p.Renew(t.Context(), renewRequest(g))
	require.NoError(t, err, "the service has it")
	require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
}

// T114: a gateway redirects to a page.
func TestTrap_T114_BlobRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		everyVerbIsUnknown(t, b, &foreignAnswer{status, page, http.Header{"Location": {"http://login/"}}}, "", verbCreate, verbAcquire, verbRenew)
	}
}

// T115: a gateway answers with the status of a success.
func TestTrap_T115_BlobSuccessNeedsTheServicesMark(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, status := range []int{200, 201, 202, 204} {
		everyVerbIsUnknown(t, b, &foreignAnswer{status: status}, "", verbCreate, verbAcquire, verbRenew)
		everyVerbIsUnknown(t, b, html(status), "", verbCreate, verbAcquire, verbRenew)
	}
}

// T115: the answer to a lease operation names another lease, or no lease.
func TestTrap_T115_BlobLeasesAreThoseThatWereSent(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, status := range []int{200, 201} {
		everyVerbIsUnknown(t, b, &foreignAnswer{status, "", forgedHeader()}, verbAcquire, verbRenew)
		everyVerbIsUnknown(t, b, &foreignAnswer{status, "", forgedHeader("x-ms-lease-id", leaseID("other"))}, verbAcquire, verbRenew)
	}
}

// T116: a gateway refuses requests. A 404 from the gateway is not a loss, and its refusals do not
// end a wait.
func TestTrap_T116_BlobRefusalsOfOthersAreNoneOfTheService(t *testing.T) {
	t.Parallel()
	b := newBed(t)
	for _, status := range []int{400, 401, 403, 404, 405, 409, 410, 412, 429, 500, 502, 503} {
		everyVerbIsUnknown(t, b, html(status), "", verbCreate, verbAcquire, verbRenew)
	}
	for _, status := range []int{404, 409, 412} {
		everyVerbIsUnknown(t, b, &foreignAnswer{status, "<Error><Code>BlobNotFound</Code></Error>", forgedHeader()}, "", verbRenew)
		everyVerbIsUnknown(t, b, &foreignAnswer{status, `{"code": "BlobNotFound"}`, http.Header{"X-Ms-Error-Code": {"BlobNotFound"}}}, "", verbRenew)
	}
}
