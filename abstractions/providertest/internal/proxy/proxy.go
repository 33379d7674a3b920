package proxy

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
)

// Proxy is a proxy in front of a server.
type Proxy struct {
	*httptest.Server
	transport http.RoundTripper
	target    *url.URL
	page      *httptest.Server      // the target of redirects, which answers everything
	Fault     atomic.Pointer[Fault] // nil: the server answers
	Followed  atomic.Int64          // requests that have followed a redirect
}

// New starts a proxy in front of a server. If transport is nil, the proxy sends requests
// through a plain http.Transport.
func New(t testing.TB, server string, transport http.RoundTripper) *Proxy {
	t.Helper()
	to, err := url.Parse(server)
	require.NoError(t, err)
	p := &Proxy{transport: transport, target: to}
	if transport == nil {
		plain := &http.Transport{DisableCompression: true}
		t.Cleanup(plain.CloseIdleConnections)
		p.transport = plain
	}
	p.page = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.Followed.Add(1)
		w.Header().Set("Etag", `"1"`)
	}))
	p.Server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.Close()
		p.page.Close()
	})
	return p
}

// ServeHTTP answers with the fault, or forwards the request to the server.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return // the client has left
	}
	f := p.Fault.Load()
	if f == nil || f.Writes && (req.Method == http.MethodGet || req.Method == http.MethodHead) {
		if a, err := p.send(req, body); err == nil {
			a.copy(w)
		} else {
			p.cut(w, "")
		}
		return
	}
	defer f.Answered.Add(1)
	var a reply
	if f.Applied || f.Cut {
		if a, err = p.send(req, body); err != nil {
			p.cut(w, "")
			return
		}
	}
	switch {
	case f.Cut && len(a.body) > 1 && req.Method != http.MethodHead:
		p.cut(w, fmt.Sprintf("HTTP/1.1 %s\r\n%sContent-Length: %d\r\n\r\n%s", a.status, a.head(), len(a.body), a.body[:len(a.body)/2]))
	case f.Cut:
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

// reply is an answer from the server.
type reply struct {
	code   int
	status string
	header http.Header
	body   []byte
}

// head returns the header of a reply, without the length of its body.
func (a reply) head() string {
	left := a.header.Clone()
	left.Del("Content-Length")
	var text bytes.Buffer
	_ = left.Write(&text)
	return text.String()
}

// send forwards a request.
func (p *Proxy) send(req *http.Request, body []byte) (a reply, err error) {
	next := req.Clone(context.WithoutCancel(req.Context())) // the request arrives even if the client leaves
	next.RequestURI, next.URL.Scheme, next.URL.Host = "", p.target.Scheme, p.target.Host
	next.Body, next.ContentLength, next.TransferEncoding = io.NopCloser(bytes.NewReader(body)), int64(len(body)), nil
	if len(body) == 0 {
		next.Body = http.NoBody
	}
	response, err := p.transport.RoundTrip(next)
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
func (p *Proxy) cut(w http.ResponseWriter, text string) {
	var conn net.Conn
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	_, _ = io.WriteString(conn, text)
	_ = conn.Close()
}
