package credentialtest

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
)

// Recorder records all bytes that are sent to its hosts, over TCP or HTTP. The zero value is ready. A
// Recorder is safe for concurrent use.
type Recorder struct {
	mu   sync.Mutex
	sent strings.Builder
}

// Write records p.
func (r *Recorder) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent.Write(p)
}

// String returns all recorded bytes.
func (r *Recorder) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.sent.String()
}

// ServeHTTP records a request and answers 404.
func (r *Recorder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	r.Record(req)
	w.WriteHeader(http.StatusNotFound)
}

// Record records a request. Its body can still be read.
func (r *Recorder) Record(req *http.Request) {
	text, _ := httputil.DumpRequest(req, true) // the error of a body that was cut off does not matter
	_, _ = r.Write(text)
}

// Listen listens on a port of its own until the test ends, and records the bytes that connections receive. serve reads
// from a connection and may answer; if it is nil, each connection is read to its end. Listen returns 127.0.0.1:port.
func (r *Recorder) Listen(t testing.TB, serve func(net.Conn)) (addr string) {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	var all sync.WaitGroup
	all.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
				defer func() { _ = conn.Close() }()
				recorded := recordedConn{conn, io.TeeReader(conn, r)}
				if serve != nil {
					serve(recorded)
				}
				_, _ = io.Copy(io.Discard, recorded)
			})
		}
	})
	t.Cleanup(func() {
		_ = listener.Close()
		cancel()
		all.Wait()
	})
	return listener.Addr().String()
}

type recordedConn struct {
	net.Conn
	from io.Reader
}

func (c recordedConn) Read(p []byte) (int, error) { return c.from.Read(p) }

// NoSecretIsRedirected (T118) makes a server redirect each request of a provider to another host. Nothing may be sent
// to that host, and no error may show a secret. proof is a text that the provider's own server must receive.
func NoSecretIsRedirected(t *testing.T, open func(t testing.TB, url string) (abstractions.Provider, error), proof string, secrets ...string) {
	t.Helper()
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			var own, other Recorder
			elsewhere := httptest.NewServer(&other)
			defer elsewhere.Close()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				own.Record(r)
				w.Header().Set("Location", elsewhere.URL+r.URL.RequestURI())
				w.WriteHeader(status)
			}))
			defer server.Close()
			var s Shown
			p, err := open(t, server.URL)
			s.Show(err)
			if err == nil {
				for verb, call := range everyCall(p, abstractions.Grant{Name: "n", ID: "a", Token: 1, TTL: time.Minute}) {
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					err := call(ctx)
					cancel()
					require.ErrorIs(t, err, abstractions.ErrUnavailable, verb)
					s.Show(err)
				}
				require.NoError(t, p.Close())
			}
			s.Hides(t, secrets...)
			if !strings.Contains(own.String(), proof) { // require.Contains would print all that was sent
				t.Errorf("its own host was not sent %q", proof)
			}
			require.Empty(t, other.String())
		})
	}
}
