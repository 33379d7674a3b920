package s3lease

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// gateway is a reverse proxy in front of a store. Its handler instead, if set, answers in the store's place.
type gateway struct {
	url     string
	instead atomic.Pointer[http.HandlerFunc]
	sent    atomic.Int32 // answers in the store's place
}

func newGateway(t testing.TB, variable string) *gateway {
	t.Helper()
	u, err := url.Parse(serverURL(t, variable))
	require.NoError(t, err)
	store, err := url.Parse(u.Query().Get("endpoint"))
	require.NoError(t, err)
	g := &gateway{}
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(store)
		r.Out.Host = r.In.Host // the signature covers the host
	}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if instead := g.instead.Load(); instead != nil {
			g.sent.Add(1)
			(*instead)(w, r)
			return
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	query := u.Query()
	query.Set("endpoint", server.URL)
	query.Set("prefix", abstractions.NewID())
	u.RawQuery = query.Encode()
	g.url = u.String()
	return g
}

func (g *gateway) answerWith(instead http.HandlerFunc) { g.instead.Store(&instead) }
func (g *gateway) reset()                              { g.instead.Store(nil) }

// clients returns providers with their own clients, and with an application's clients.
func (g *gateway) clients(t testing.TB) map[string]*Provider {
	t.Helper()
	all := map[string]*Provider{"own": open(t, g.url)}
	for name, client := range map[string]s3.HTTPClient{"net/http": &http.Client{}, "the SDK's": awshttp.NewBuildableClient()} {
		o := Options{URL: g.url}
		require.NoError(t, o.complete())
		own, guarded, err := o.client(t.Context())
		require.NoError(t, err)
		t.Cleanup(guarded.CloseIdleConnections)
		options := own.Options()
		options.HTTPClient = client
		p, err := Open(t.Context(), Options{Bucket: o.Bucket, Prefix: o.Prefix, Client: s3.New(options)})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, p.Close()) })
		all[name] = p
	}
	return all
}

// verbs returns one call of each verb for a lease.
func verbs(p *Provider, g abstractions.Grant) map[string]func(context.Context) error {
	stateless := g
	stateless.State = nil
	return map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error {
			_, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: g.Name, ID: "other", Owner: "test", TTL: g.TTL})
			return err
		},
		"renew":             func(ctx context.Context) error { _, err := p.Renew(ctx, renewRequest(g)); return err },
		"renew by a read":   func(ctx context.Context) error { _, err := p.Renew(ctx, renewRequest(stateless)); return err },
		"release":           func(ctx context.Context) error { return p.Release(ctx, releaseRequest(g)) },
		"release by a read": func(ctx context.Context) error { return p.Release(ctx, releaseRequest(stateless)) },
		"break": func(ctx context.Context) error {
			_, err := p.Break(ctx, abstractions.BreakRequest{Name: g.Name})
			return err
		},
		"inspect": func(ctx context.Context) error {
			_, err := p.Inspect(ctx, abstractions.InspectRequest{Name: g.Name})
			return err
		},
		"list": func(ctx context.Context) error { _, err := p.List(ctx, abstractions.ListRequest{}); return err },
		"ping": func(ctx context.Context) error { return p.Ping(ctx) },
		"acquire once again": func(ctx context.Context) error {
			_, err := p.Acquire(ctx, abstractions.AcquireRequest{Name: g.Name, ID: g.ID, Owner: "test", TTL: 2 * g.TTL})
			return err
		},
	}
}

// requireForeign checks that an error leaves the outcome unknown and names the gateway.
func requireForeign(t testing.TB, err error, status int, what string) {
	t.Helper()
	require.ErrorIs(t, err, abstractions.ErrUnavailable, what)
	require.False(t, abstractions.NotApplied(err), "%s: %v", what, err)
	for _, certain := range []error{
		abstractions.ErrHeld, abstractions.ErrLost, abstractions.ErrReleased, abstractions.ErrStale, abstractions.ErrDenied,
		abstractions.ErrNotSetUp, abstractions.ErrThrottled, abstractions.ErrInvalid,
	} {
		require.NotErrorIs(t, err, certain, what)
	}
	require.ErrorContains(t, err, "a proxy or gateway may stand before", what)
	require.ErrorContains(t, err, fmt.Sprint(status), what)
	require.NotContains(t, err.Error(), "\n", what)
}

// heldLease is a lease that is held through a gateway.
type heldLease struct {
	*gateway
	*Provider
	name  string
	lease abstractions.Grant
}

// throughGateways returns leases in both stores, one for each client.
func throughGateways(t testing.TB) (all []*heldLease) {
	t.Helper()
	for name, variable := range servers {
		gate := newGateway(t, variable)
		for made, p := range gate.clients(t) {
			h := &heldLease{gateway: gate, Provider: p, name: name + ", " + made}
			req := acquireRequest(abstractions.NewID(), time.Minute)
			req.Name = made
			var err error
			h.lease, err = p.Acquire(t.Context(), req)
			require.NoError(t, err)
			all = append(all, h)
		}
	}
	return all
}

// checkEach makes the gateway answer each call in the store's place, and checks that the lease is still
// held.
func (h *heldLease) checkEach(t testing.TB, instead http.HandlerFunc, check func(err error, what string)) {
	t.Helper()
	for verb, call := range verbs(h.Provider, h.lease) {
		before := h.sent.Load()
		h.answerWith(instead)
		err := call(t.Context())
		h.reset()
		check(err, h.name+", "+verb)
		require.Greater(t, h.sent.Load(), before, "%s, %s", h.name, verb)
	}
	var err error
	h.lease, err = h.Renew(t.Context(), renewRequest(h.lease))
	require.NoError(t, err, "the store has it")
}

// checkForeignAnswers makes the gateways answer each call of each client in the store's place.
func checkForeignAnswers(t testing.TB, all []*heldLease, status int, instead http.HandlerFunc) {
	t.Helper()
	for _, h := range all {
		h.checkEach(t, instead, func(err error, what string) { requireForeign(t, err, status, what) })
	}
}

const page = "<html><body>Please log in.</body></html>"

// T114: an ingress redirects to a page. A client that follows the redirect changes a PUT to a
// GET, and mistakes the page's 200 for a renewal.
func TestTrap_T114_S3RedirectsAreNotFollowed(t *testing.T) {
	all := throughGateways(t)
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var visits atomic.Int32
			target := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				visits.Add(1)
				w.Header().Set("ETag", `"5f3e-1c"`)
				_, _ = w.Write([]byte(page))
			}))
			defer target.Close()
			checkForeignAnswers(t, all, status, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, target.URL, status) })
			require.Zero(t, visits.Load())
		})
	}
}

// newAnswer returns a handler that answers with headers and a body.
func newAnswer(status int, body string, headers ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}
}

// T115: a success status from a proxy in front of the store does not count as an answer from the
// store.
func TestTrap_T115_S3SuccessNeedsTheStoresMark(t *testing.T) {
	all := throughGateways(t)
	modified := "Thu, 26 Nov 2026 19:56:29 GMT"
	for name, instead := range map[string]http.HandlerFunc{
		"nothing":            newAnswer(200, ""),
		"a page":             newAnswer(200, page, "Content-Type", "text/html"),
		"a page with a date": newAnswer(200, page, "Content-Type", "text/html", "ETag", `"5f3e-1c"`, "Last-Modified", modified),
		"an empty file":      newAnswer(200, "", "ETag", `"5f3e-0"`, "Last-Modified", modified),
		"JSON":               newAnswer(200, `{"status": "maintenance"}`, "Content-Type", "application/json"),
		"XHTML":              newAnswer(200, `<?xml version="1.0"?>`+page, "Content-Type", "application/xml"),
		"a list of another":  newAnswer(200, `<ListBucketResult><Name>b</Name><Prefix>else/</Prefix></ListBucketResult>`, requestID, "1"),
		"accepted":           newAnswer(202, ""),
	} {
		status := 200
		if name == "accepted" {
			status = 202
		}
		t.Run(name, func(t *testing.T) { checkForeignAnswers(t, all, status, instead) })
	}
	t.Run("no content", func(t *testing.T) {
		checkForeignAnswers(t, all, http.StatusNoContent, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	})
}

// T115: if a store's answers have no IDs, the form alone identifies the answers.
func TestTrap_T115_S3StoresWithoutRequestIDs(t *testing.T) {
	gate := newGateway(t, servers["gofakes3"])
	p := open(t, gate.url)
	p.driver.store.checker.ids = false
	h := &heldLease{gateway: gate, Provider: p, lease: acquire(t, p, "a")}
	for name, instead := range map[string]http.HandlerFunc{
		"nothing":       newAnswer(200, ""),
		"a page":        newAnswer(200, page, "Content-Type", "text/html", "ETag", `"5f3e-1c"`),
		"a zipped page": newAnswer(200, page, "Content-Type", "text/html", "ETag", `W/"5f3e-1c"`, "Last-Modified", "Thu, 26 Nov 2026 19:56:29 GMT"),
		"not found":     newAnswer(404, page, "Content-Type", "text/html"),
	} {
		h.checkEach(t, instead, func(err error, what string) {
			require.ErrorContains(t, err, "a proxy or gateway may stand before", name+what)
			require.False(t, abstractions.NotApplied(err), name+what)
		})
	}
}

// T116: a 404 from a proxy without a route is not reported as a loss, and no other refusal by a proxy is final.
func TestTrap_T116_S3RefusalsOfOthersAreNoneOfTheStore(t *testing.T) {
	all := throughGateways(t)
	for _, status := range []int{400, 401, 403, 404, 405, 407, 409, 410, 412, 429, 500, 501, 502, 503, 504} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			checkForeignAnswers(t, all, status, newAnswer(status, "404 page not found", "Content-Type", "text/plain"))
		})
	}
	for name, body := range map[string]string{
		"nothing": "", "a page": page, "JSON": `{"code": "NoSuchKey"}`, "another document": "<Problem><Code>NoSuchKey</Code></Problem>",
		"a broken document": "<Error><Code>NoSuchKey</Code>", "no code": "<Error><Message>not found</Message></Error>",
	} {
		for _, status := range []int{404, 412} {
			t.Run(fmt.Sprint(status, " ", name), func(t *testing.T) {
				checkForeignAnswers(t, all, status, newAnswer(status, body, requestID, "1"))
			})
		}
	}
}
