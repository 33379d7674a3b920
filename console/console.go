package console

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
)

// MaxNames bounds the list. If more names are held, the list shows the first MaxNames that the
// backend returns, with a note. The page of every name can still be opened.
const MaxNames = 50_000

// maxBody bounds the body of a request, in bytes. bodyTimeout bounds the time in which the body must
// arrive.
const (
	maxBody     = 64 << 10
	bodyTimeout = 10 * time.Second
)

// Options configure a Console. The zero value is read-only, and accepts requests only from this machine.
type Options struct {
	// Provider is the source of history: the manager's provider, or one that package history
	// writes to. If it is nil, or keeps no history, no history is shown.
	Provider leasing.Provider
	// Prefix, unless "", hides names that don't begin with Prefix.
	Prefix string
	// Hosts are the host names, without port, under which browsers reach the
	// console. IP addresses and localhost need not be listed.
	Hosts []string
	// Access identifies users, and refuses all others. Default: only requests from this
	// machine are answered, without a user.
	Access Access
	// AllowBreak lets users end leases. It needs Access.
	AllowBreak bool
	// Refresh is the minimum time between two reads of the backend. The default is 2 s, the
	// minimum 100 ms.
	Refresh time.Duration
}

// Console is an http.Handler that serves the pages. It is safe for concurrent use.
type Console struct {
	manager *leasing.Manager
	history abstractions.HistoryReader // nil if there is none
	options Options
	list    *shared
	parts   *parts
	streams streams
	handler http.Handler
	// running ends with Close, and ends the streams.
	running context.Context
	stop    context.CancelFunc
}

// New returns a console of the leases that a manager sees. It starts no goroutine and
// sends nothing. Mount it below a path that ends in a slash, with [http.StripPrefix];
// its links are relative.
//
// It returns a *leasing.InvalidError that names the invalid option.
func New(manager *leasing.Manager, options Options) (*Console, error) {
	if options.Refresh == 0 {
		options.Refresh = 2 * time.Second
	}
	switch {
	case manager == nil:
		return nil, &leasing.InvalidError{Field: "manager", Value: nil, Want: "a manager"}
	case options.Refresh < 100*time.Millisecond:
		return nil, &leasing.InvalidError{Field: "Options.Refresh", Value: options.Refresh, Want: "at least 100ms"}
	case options.AllowBreak && options.Access == nil:
		return nil, &leasing.InvalidError{Field: "Options.AllowBreak", Value: true, Want: "Options.Access, to identify the user who breaks a lease"}
	}
	c := &Console{manager: manager, options: options, parts: newParts()}
	if options.Provider != nil {
		c.history, _ = abstractions.As[abstractions.HistoryReader](options.Provider)
	}
	c.running, c.stop = context.WithCancel(context.Background())
	c.list = newShared(c.running, options.Refresh, c.listHeld)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.serveLeases)
	mux.HandleFunc("GET /lease", c.serveLease)
	mux.HandleFunc("GET /health", c.serveHealth)
	mux.HandleFunc("GET /live/leases", c.streamLeases)
	mux.HandleFunc("GET /live/lease", c.streamLease)
	mux.HandleFunc("GET /live/health", c.streamHealth)
	mux.HandleFunc("GET /break", c.requireBreak(c.serveBreak))
	mux.HandleFunc("POST /break", c.requireBreak(c.doBreak))
	for name := range assets {
		mux.HandleFunc("GET /"+name, serveAsset)
	}
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusNotFound, "There is no such page.")
	})
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fail(w, http.StatusForbidden, "This request came from a page of another origin. Nothing was done.")
	}))
	c.handler = protection.Handler(c.authorize(mux))
	return c, nil
}

// Close ends the streams of all pages and refuses new ones: pass it to
// [http.Server.RegisterOnShutdown], since a server that shuts down waits for its
// streams. It may be called several times.
func (c *Console) Close() {
	c.stop()
	c.list.wait()
}

// policy allows only the console's own resources: its script, style sheet, images and streams.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; frame-ancestors 'none'; base-uri 'none'"

// ServeHTTP answers a request.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Content-Security-Policy", policy)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Cross-Origin-Opener-Policy", "same-origin")
	header.Set("Cross-Origin-Resource-Policy", "same-origin")
	// With no-referrer, browsers would hide the origin of a submitted form.
	header.Set("Referrer-Policy", "same-origin")
	header.Set("Cache-Control", "no-store")
	if isReadable(r) && r.URL.Path == "/healthz" {
		c.serveProbe(w)
		return
	}
	// A server reads the rest of a body that a handler has not read. The deadline also ends these reads.
	if r.ContentLength != 0 {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // if this fails, the server's own deadline applies
	}
	switch {
	case r.ContentLength > maxBody:
		w.Header().Set("Connection", "close")
		fail(w, http.StatusRequestEntityTooLarge, tooBig)
		return
	case r.ContentLength != 0 && isReadable(r):
		w.Header().Set("Connection", "close")
		fail(w, http.StatusBadRequest, "A request for a page has no body.")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	c.handler.ServeHTTP(w, r)
}

const tooBig = "The request is too big. Nothing was done."

func isReadable(r *http.Request) bool {
	return r.Method == http.MethodGet || r.Method == http.MethodHead
}

// serveProbe answers a probe of a load balancer or of Kubernetes, without Access: it reports whether the console
// serves or is closed.
func (c *Console) serveProbe(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	status, text := http.StatusOK, "ok\n"
	if c.running.Err() != nil {
		status, text = http.StatusServiceUnavailable, "closed\n"
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text) // fails only if the client has gone
}

// visible reports whether the pages may show a name.
func (c *Console) visible(name string) bool {
	return leasing.ValidateName(name) == nil && strings.HasPrefix(name, c.options.Prefix)
}
