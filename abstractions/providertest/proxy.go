package providertest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// Route is the way of a provider that speaks HTTP to its server, for the checks that put a proxy
// between the two: see Harness.HTTP.
type Route struct {
	// URL is the server's, as in http://127.0.0.1:8500. The proxy sends requests on to its scheme
	// and host, with the path, the query, the Host and the header that they came with.
	URL string
	// Transport sends the requests. Default: a plain http.Transport. A client that asks the server for
	// its address needs one that replaces the address in the answer by the request's Host.
	Transport http.RoundTripper
	// Open opens a client that sends all its requests to a URL, http://127.0.0.1:port, with the HTTP
	// client that the provider has by default. It may send requests. The suite closes the client.
	Open func(t testing.TB, url string) abstractions.Provider
}

// fault is an answer of a proxy in place of the server's.
type fault struct {
	name       string
	status     int // of the answer; 0 is none
	kind, body string
	cut        bool // the server's answer, without its end
	writes     bool // reads pass
	applied    bool // the server has the request nevertheless
	answered   atomic.Int64
}

// String says which.
func (f *fault) String() string {
	text := f.name
	if f.writes {
		text += ", to writes"
	}
	if f.applied {
		text += " that are applied"
	}
	return text
}

// proxy stands before a server.
type proxy struct {
	*httptest.Server
	route Route
	to    *url.URL
	page  *httptest.Server // that redirects name, which answers everything
	fault atomic.Pointer[fault]
	led   atomic.Int64 // requests that have followed a redirect
}

func newProxy(t testing.TB, route Route) *proxy {
	t.Helper()
	to, err := url.Parse(route.URL)
	require.NoError(t, err)
	p := &proxy{route: route, to: to}
	if p.route.Transport == nil {
		transport := &http.Transport{DisableCompression: true}
		t.Cleanup(transport.CloseIdleConnections)
		p.route.Transport = transport
	}
	p.page = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.led.Add(1)
		w.Header().Set("Etag", `"1"`)
	}))
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.Close()
		p.page.Close()
	})
	return p
}

// ServeHTTP answers, or has the server answer.
func (p *proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client has left
	}
	f := p.fault.Load()
	if f == nil || f.writes && (req.Method == http.MethodGet || req.Method == http.MethodHead) {
		if a, err := p.send(req, body); err == nil {
			a.copy(w)
		} else {
			p.cut(w, "")
		}
		return
	}
	defer f.answered.Add(1)
	var a reply
	if f.applied || f.cut {
		if a, err = p.send(req, body); err != nil {
			p.cut(w, "")
			return
		}
	}
	switch {
	case f.cut && len(a.body) > 1 && req.Method != http.MethodHead:
		p.cut(w, fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", a.status, a.head(), len(a.body), a.body[:len(a.body)/2]))
	case f.cut:
		p.cut(w, fmt.Sprintf("HTTP/1.1 %s\r\nETag: ", a.status))
	case f.status == 0:
		<-req.Context().Done()
	default:
		if f.status/100 == 3 {
			w.Header().Set("Location", p.page.URL+"/sign-in")
		}
		if f.kind != "" {
			w.Header().Set("Content-Type", f.kind)
		}
		w.WriteHeader(f.status)
		_, _ = io.WriteString(w, f.body)
	}
}

// reply is an answer of the server.
type reply struct {
	code   int
	status string
	header http.Header
	body   []byte
}

// head is the header of a reply, without the length of its body.
func (a reply) head() string {
	left := a.header.Clone()
	left.Del("Content-Length")
	var text bytes.Buffer
	_ = left.Write(&text)
	return text.String()
}

// send sends a request on.
func (p *proxy) send(req *http.Request, body []byte) (a reply, err error) {
	next := req.Clone(context.WithoutCancel(req.Context())) // it arrives
	next.RequestURI, next.URL.Scheme, next.URL.Host = "", p.to.Scheme, p.to.Host
	next.Body, next.ContentLength, next.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	if len(body) == 0 {
		next.Body = http.NoBody
	}
	response, err := p.route.Transport.RoundTrip(next)
	if err != nil {
		return a, err
	}
	defer response.Body.Close()
	a = reply{code: response.StatusCode, status: response.Status, header: response.Header}
	a.body, err = io.ReadAll(response.Body)
	return a, err
}

func (a reply) copy(w http.ResponseWriter) {
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.Header().Del("Connection")
	w.WriteHeader(a.code)
	_, _ = w.Write(a.body)
}

// cut sends a text and closes the connection.
func (p *proxy) cut(w http.ResponseWriter, text string) {
	var conn net.Conn
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(conn, text)
	_ = conn.Close()
}
