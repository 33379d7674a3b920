package cosmoslease

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/stretchr/testify/require"
)

// gateway is a proxy in front of an account. It answers in the account's place if instead is
// set.
type gateway struct {
	next    http.RoundTripper
	instead atomic.Pointer[foreignAnswer]
	visits  atomic.Int32 // to the page of the redirect
}

// foreignAnswer is an answer that does not come from the account.
type foreignAnswer struct {
	status int
	body   string
	header http.Header
}

const page = "<html><body>Please log in.</body></html>"

func (g *gateway) RoundTrip(req *http.Request) (*http.Response, error) {
	f := g.instead.Load()
	if req.URL.Host == "login" {
		g.visits.Add(1)
		f = &foreignAnswer{200, page, http.Header{"Etag": {`"5f3e-1c"`}}}
	}
	if f == nil {
		return g.next.RoundTrip(req)
	}
	header := f.header.Clone()
	if header == nil {
		header = http.Header{}
	}
	header.Set("Date", time.Now().UTC().Format(http.TimeFormat))
	return &http.Response{
		StatusCode: f.status, Header: header, Body: io.NopCloser(strings.NewReader(f.body)), ContentLength: int64(len(f.body)),
		Request: req, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
	}, nil
}

// openBehindGateway returns a provider whose requests go through a gateway.
func (b *bed) openBehindGateway() (*Provider, *gateway) {
	transport := b.pipe.Transport()
	b.t.Cleanup(transport.CloseIdleConnections)
	g := &gateway{next: transport}
	return b.process(func(o *Options) { o.ClientOptions = clientOptions(&http.Client{Transport: g}) }), g
}

// html returns a page with the headers that a web server adds to a file.
func html(status int) *foreignAnswer {
	return &foreignAnswer{status, page, http.Header{"Content-Type": {"text/html"}, "Etag": {`"5f3e-1c"`}, "Last-Modified": {"Thu, 26 Nov 2026 19:56:29 GMT"}}}
}

func redirect(status int) *foreignAnswer {
	return &foreignAnswer{status, page, http.Header{"Content-Type": {"text/html"}, "Location": {"http://login/"}}}
}

// twoHolders puts a gateway in front of one holder. It returns the gateway, which answers in the
// account's place while another process acquires the name directly.
func twoHolders(t *testing.T, b *bed, instead *foreignAnswer) *gateway {
	behind, gate := b.openBehindGateway()
	first := managerOf(t, behind, leasing.Options{TTL: 6 * time.Second})
	lease, err := first.TryAcquire(t.Context(), "n")
	require.NoError(t, err)
	gate.instead.Store(instead)
	second := managerOf(t, b.Provider, leasing.Options{TTL: 6 * time.Second})
	next, err := second.Acquire(t.Context(), "n")
	require.NoError(t, err)
	require.Error(t, lease.Err(), "two holders: %v", instead)
	require.Greater(t, next.Token(), lease.Token())
	require.NoError(t, next.Release(t.Context()))
	gate.instead.Store(nil)
	return gate
}

// T114: a gateway redirects to a page. A client that follows the redirect changes a PUT to a
// GET, and mistakes the page's 200 for a renewal.
func TestTrap_T114_CosmosRedirectsAreNotFollowed(t *testing.T) {
	for _, status := range []int{301, 302, 303, 307, 308} {
		inBubble(t, func(t *testing.T, b *bed) {
			gate := twoHolders(t, b, redirect(status))
			require.Zero(t, gate.visits.Load())
		})
	}
}

// T115: a 200 from a gateway does not count as a success.
func TestTrap_T115_CosmosSuccessNeedsTheServicesMark(t *testing.T) {
	for _, instead := range []*foreignAnswer{{status: 200}, {status: 201}, {status: 204}, html(200), {status: 200, body: `{"status": "maintenance"}`}} {
		inBubble(t, func(t *testing.T, b *bed) { twoHolders(t, b, instead) })
		everyVerbIsUnknown(t, instead)
	}
}

// T115: an answer with the service's header but without an item does not count as a success.
func TestTrap_T115_CosmosItemsHaveAnETag(t *testing.T) {
	for _, body := range []string{"", "{}", "[]", page} {
		everyVerbIsUnknown(t, &foreignAnswer{200, body, http.Header{"X-Ms-Activity-Id": {"1"}}})
	}
}

// T116: a gateway refuses requests. A 404 from the gateway causes no loss, and its refusals do
// not end a wait.
func TestTrap_T116_CosmosRefusalsOfOthersAreNoneOfTheService(t *testing.T) {
	for _, status := range []int{400, 401, 403, 404, 405, 409, 410, 412, 413, 429, 449, 500, 502, 503} {
		for _, body := range []string{"", page, `{"code": "NotFound", "message": "no route"}`} {
			everyVerbIsUnknown(t, &foreignAnswer{status, body, http.Header{"Retry-After": {"1"}}})
		}
		inBubble(t, func(t *testing.T, b *bed) {
			behind, gate := b.openBehindGateway()
			lease, err := managerOf(t, behind, leasing.Options{TTL: 6 * time.Second}).TryAcquire(t.Context(), "n")
			require.NoError(t, err)
			gate.instead.Store(html(status))
			time.Sleep(3 * time.Second) // a renewal fails during this time
			gate.instead.Store(nil)
			time.Sleep(time.Minute)
			require.NoError(t, lease.Err(), status)
			require.NoError(t, lease.Release(t.Context()))
		})
	}
}

// everyVerbIsUnknown checks that the outcome of each call is unknown if a gateway answers in
// the account's place.
func everyVerbIsUnknown(t *testing.T, instead *foreignAnswer) {
	t.Helper()
	inBubble(t, func(t *testing.T, b *bed) {
		p, gate := b.openBehindGateway()
		g, err := p.Acquire(t.Context(), acquireRequest("n", "a", time.Minute))
		require.NoError(t, err)
		stateless := g
		stateless.State = nil
		for verb, call := range map[string]func(context.Context) error{
			"acquire": func(ctx context.Context) error {
				_, err := p.Acquire(ctx, acquireRequest("n", "b", time.Minute))
				return err
			},
			"renew":             func(ctx context.Context) error { _, err := p.Renew(ctx, renewRequest(g)); return err },
			"renew by a read":   func(ctx context.Context) error { _, err := p.Renew(ctx, renewRequest(stateless)); return err },
			"release":           func(ctx context.Context) error { return p.Release(ctx, releaseRequest(g)) },
			"release by a read": func(ctx context.Context) error { return p.Release(ctx, releaseRequest(stateless)) },
			"break": func(ctx context.Context) error {
				_, err := p.Break(ctx, abstractions.BreakRequest{Name: "n"})
				return err
			},
			"inspect": func(ctx context.Context) error {
				_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: "n"})
				return err
			},
			"list":  func(ctx context.Context) error { _, err := p.List(ctx, abstractions.ListRequest{}); return err },
			"ping":  p.Ping,
			"sweep": func(ctx context.Context) error { _, err := p.Sweep(ctx); return err },
			"first use": func(ctx context.Context) error {
				fresh, other := b.openBehindGateway()
				other.instead.Store(instead)
				return fresh.Ping(ctx)
			},
		} {
			gate.instead.Store(instead)
			err := call(t.Context())
			gate.instead.Store(nil)
			what := fmt.Sprint(verb, " ", instead, ": ", err)
			require.Error(t, err, what)
			requireUnknown(t, err)
			require.Contains(t, err.Error(), "an answer that is not from Cosmos DB: "+fmt.Sprint(instead.status), what)
			require.Contains(t, err.Error(), "a proxy or gateway may stand before the service", what)
			require.NotContains(t, err.Error(), "\n", what)
		}
		g, err = p.Renew(t.Context(), renewRequest(g))
		require.NoError(t, err, "the account has it")
		require.NoError(t, p.Release(t.Context(), releaseRequest(g)))
	})
}

// T117: the account alone determines whether it accepts writes in several regions, not
// a gateway that answers {} to the second read of the account.
func TestTrap_T117_CosmosRegionsComeFromTheAccount(t *testing.T) {
	for _, header := range []http.Header{nil, {"X-Ms-Activity-Id": {"1"}}} {
		inBubble(t, func(t *testing.T, b *bed) {
			b.account.WriteRegions(true)
			p, gate := b.openBehindGateway()
			require.ErrorIs(t, p.Ping(t.Context()), abstractions.ErrNotSetUp)
			gate.instead.Store(&foreignAnswer{200, "{}", header})
			time.Sleep(6 * time.Minute) // azcosmos reads the account every five minutes
			_ = p.Ping(t.Context())
			synctest.Wait()
			require.True(t, p.driver.store.connection.wire.severalRegions.Load())
		})
	}
}
