package console_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/console"
	memlease "github.com/distributedleasing/leasing/providers/memory"
)

// send opens a connection and sends lines of a request.
func (w *fixture) send(lines ...string) net.Conn {
	w.t.Helper()
	conn, err := new(net.Dialer).DialContext(w.t.Context(), "tcp", w.server.Listener.Addr().String())
	require.NoError(w.t, err)
	w.t.Cleanup(func() { conn.Close() })
	_, err = io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n")
	require.NoError(w.t, err)
	return conn
}

// drip sends a byte of a body every tenth of a second until the server closes the connection.
func drip(conn net.Conn) {
	for {
		if _, err := conn.Write([]byte("a")); err != nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
}

// T237: clients that send or read slowly don't make the process lose a lease, and don't use up the streams of other users.
func TestTrap_T237_SlowClientsTakeNoLease(t *testing.T) {
	w := newFixture(t, console.Options{Access: token(t), AllowBreak: true, Refresh: 100 * time.Millisecond})
	lease := w.hold("jobs/report", &leasing.AcquireOptions{TTL: 2 * time.Second})
	as := func(user string) string {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.SetBasicAuth(user, secret)
		return "Authorization: " + r.Header.Get("Authorization")
	}

	var dripping sync.WaitGroup
	for i := range 300 {
		kinds := [][]string{
			{"POST /leases/break HTTP/1.1", "Host: elsewhere", "Content-Length: 1000"},
			{"POST /leases/break HTTP/1.1", "Host: localhost", "Content-Length: 1000", "Content-Type: application/x-www-form-urlencoded", as("alice")},
			{"GET /leases/live/leases HTTP/1.1", "Host: localhost", "Content-Length: 1000", as("alice")},
			{"POST /leases/ HTTP/1.1", "Host: localhost", "Content-Length: 1000"},
		}
		conn := w.send(kinds[i%len(kinds)]...)
		dripping.Go(func() { drip(conn) })
	}
	for range 500 {
		w.send("GET /leases/live/leases HTTP/1.1", "Host: localhost", as("mallory"))
	}
	for range 200 {
		reply, _ := w.do(http.MethodHead, "live/leases", nil, signedIn)
		require.Equal(t, http.StatusOK, reply.StatusCode)
	}
	next, _ := w.events("leases", func(r *http.Request) { r.SetBasicAuth("bob", secret) })
	for range 20 {
		require.Contains(t, next(), "jobs/report")
	}
	require.Contains(t, w.page("", signedIn), "jobs/report")
	ended := make(chan struct{})
	go func() { dripping.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(time.Minute):
		require.FailNow(t, "connections that drip are still open")
	}
	require.NoError(t, lease.Err())
}

func TestTrap_T239_UsersShareTheStreams(t *testing.T) {
	w := newFixture(t, console.Options{Access: token(t), Refresh: time.Hour})
	as := func(user string) func(*http.Request) {
		return func(r *http.Request) { r.SetBasicAuth(user, secret) }
	}
	var ended []func() string
	for range 200 {
		next, _ := w.events("leases", as("mallory"))
		next()
		ended = append(ended, next)
	}
	reply, _ := w.do(http.MethodGet, "live/leases", nil, as("mallory"))
	require.Equal(t, http.StatusServiceUnavailable, reply.StatusCode, "one user has no more")
	for _, user := range []string{"alice", "bob"} {
		next, _ := w.events("leases", as(user))
		require.NotEmpty(t, next())
	}
	require.Eventually(t, func() bool { return streaming() == 200 }, 30*time.Second, 10*time.Millisecond, "the oldest two have ended")
	require.Len(t, ended, 200)
}

// reads counts the requests that read each name.
type reads struct {
	leasing.Provider
	mu    sync.Mutex
	names map[string]int
}

func (p *reads) Inspect(ctx context.Context, req abstractions.InspectRequest) (abstractions.Record, error) {
	p.mu.Lock()
	p.names[req.Name]++
	p.mu.Unlock()
	return p.Provider.Inspect(ctx, req)
}

// T242: a page with many viewers is read and rendered once.
func TestTrap_T242_ViewersShareAReadingAndARendering(t *testing.T) {
	provider := &reads{Provider: memlease.New(memlease.Options{}), names: map[string]int{}}
	manager, err := leasing.NewManager(provider, leasing.Options{})
	require.NoError(t, err)
	page, err := console.New(manager, console.Options{Refresh: time.Hour})
	require.NoError(t, err)
	w := &fixture{t: t, manager: manager, console: page}
	w.server = httptest.NewServer(http.StripPrefix("/leases", page))
	w.client = w.server.Client()
	t.Cleanup(func() {
		page.Close()
		w.server.Close()
		_ = manager.Close(context.Background())
		require.NoError(t, provider.Close())
	})
	for range 50 {
		next, _ := w.events("lease?name=jobs%2Freport")
		require.Contains(t, next(), "pill free")
	}
	provider.mu.Lock()
	require.Equal(t, 1, provider.names["jobs/report"])
	provider.mu.Unlock()

	w.hold("jobs/short", &leasing.AcquireOptions{TTL: 9 * time.Second, NoAutoRenew: true})
	for try := 0; ; try++ { // a rendering is shared for a second, on a machine that is not too busy
		require.Less(t, try, 5, "each viewer has a rendering of its own")
		next, _ := w.events("leases?q=" + fmt.Sprint(strings.Repeat("+", try)))
		one := next()
		time.Sleep(300 * time.Millisecond)
		next, _ = w.events("leases?q=" + fmt.Sprint(strings.Repeat("+", try)))
		if one == next() {
			break
		}
	}
}

func TestTrap_T240_WrongTokensAreSlowAndLogged(t *testing.T) {
	var lines bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&lines, nil)))
	defer slog.SetDefault(before)
	w := newFixture(t, console.Options{Access: token(t)})
	guess := func(r *http.Request) { r.SetBasicAuth("mallory", "a-guess-of-enough-bytes") }
	began := time.Now()
	for range 6 {
		status, _ := w.get("", guess)
		require.Equal(t, http.StatusUnauthorized, status)
	}
	require.GreaterOrEqual(t, time.Since(began), time.Second)
	var guesses sync.WaitGroup
	answered := make(chan time.Time, 30)
	for range cap(answered) {
		guesses.Go(func() {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, w.server.URL+"/leases/", nil)
			if err != nil {
				return
			}
			guess(req)
			if reply, err := w.client.Do(req); err == nil {
				reply.Body.Close()
				answered <- time.Now()
			}
		})
	}
	w.page("", signedIn)
	signed := time.Now()
	guesses.Wait()
	close(answered)
	last := signed
	for at := range answered {
		if at.After(last) {
			last = at
		}
	}
	require.Greater(t, last, signed, "a right token is not delayed")
	require.Contains(t, lines.String(), "a wrong token")
	require.Contains(t, lines.String(), "user=mallory")
	require.NotContains(t, lines.String(), "a-guess")
	require.LessOrEqual(t, strings.Count(lines.String(), "\n"), 12, "one line a second")
}

func TestTrap_T241_TheUserOfAProxyOverAUnixSocket(t *testing.T) {
	proxied, err := console.ProxyUser("X-User")
	require.NoError(t, err)
	for what, access := range map[string]console.Access{"a proxy's user": proxied, "this machine": nil} {
		t.Run(what, func(t *testing.T) {
			w := newFixture(t, console.Options{})
			folder, err := os.MkdirTemp("", "s") //nolint:usetesting // t.TempDir() may be longer than the path of a socket can be
			require.NoError(t, err)
			t.Cleanup(func() { require.NoError(t, os.RemoveAll(folder)) })
			path := filepath.Join(folder, "s")
			listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
			require.NoError(t, err)
			ctx, stop := context.WithCancel(t.Context())
			served := make(chan error, 1)
			go func() { served <- console.Serve(ctx, listener, w.manager, console.Options{Access: access}) }()
			dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			}
			client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
			get := func(headers ...string) (int, string) {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
				require.NoError(t, err)
				for i := 0; i < len(headers); i += 2 {
					req.Header.Add(headers[i], headers[i+1])
				}
				reply, err := client.Do(req)
				require.NoError(t, err)
				defer reply.Body.Close()
				body, err := io.ReadAll(reply.Body)
				require.NoError(t, err)
				return reply.StatusCode, string(body)
			}
			if access == nil {
				status, _ := get()
				require.Equal(t, http.StatusOK, status)
				status, _ = get("X-Forwarded-For", "10.0.0.1")
				require.Equal(t, http.StatusForbidden, status)
			} else {
				status, body := get("X-User", "alice")
				require.Equal(t, http.StatusOK, status)
				require.Contains(t, body, "<bdi>alice</bdi>")
				status, _ = get()
				require.Equal(t, http.StatusForbidden, status)
				status, _ = get("X-User", "alice", "X-User", "bob")
				require.Equal(t, http.StatusForbidden, status)
			}
			stop()
			require.NoError(t, <-served)
		})
	}
	w := newFixture(t, console.Options{Access: proxied})
	require.Equal(t, http.StatusForbidden, w.from("127.0.0.1:1", header("X-User", "alice")), "no address is a proxy's")
	_, err = console.ProxyUser("X-User", netip.Prefix{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
}

func TestTrap_T244_AProbeNeedsNoSignIn(t *testing.T) {
	w := newFixture(t, console.Options{Access: token(t)})
	status, body := w.get("healthz", host("10.0.0.1"))
	require.Equal(t, []any{http.StatusOK, "ok\n"}, []any{status, body})
	status, _ = w.get("health")
	require.Equal(t, http.StatusUnauthorized, status, "the page about the backend is another one")
	reply, _ := w.do(http.MethodHead, "healthz", nil)
	require.Equal(t, http.StatusOK, reply.StatusCode)
	w.console.Close()
	status, body = w.get("healthz")
	require.Equal(t, []any{http.StatusServiceUnavailable, "closed\n"}, []any{status, body})
}

func TestTrap_T243_ABodyThatIsTooBigIsRefusedAsSuch(t *testing.T) {
	w := newFixture(t, console.Options{Access: token(t), AllowBreak: true})
	lease := w.hold("jobs/report", nil)
	form := breaking(lease)
	form.Set("reason", strings.Repeat("x", 70_000))
	reply, body := w.do(http.MethodPost, "break", form, signedIn)
	require.Equal(t, http.StatusRequestEntityTooLarge, reply.StatusCode)
	require.Contains(t, body, "too big")
	unknown := func(r *http.Request) { r.ContentLength = -1 }
	reply, _ = w.do(http.MethodPost, "break", form, signedIn, unknown)
	require.Equal(t, http.StatusRequestEntityTooLarge, reply.StatusCode)
	reply, _ = w.do(http.MethodPost, "break", url.Values{"name": {"%zz"}}, signedIn, func(r *http.Request) { r.Body = io.NopCloser(strings.NewReader("name=%zz")); r.ContentLength = 8 })
	require.Equal(t, http.StatusBadRequest, reply.StatusCode)
	reply, _ = w.do(http.MethodGet, "", url.Values{"q": {"a"}}, signedIn)
	require.Equal(t, http.StatusBadRequest, reply.StatusCode, "a page takes no body")
	require.NoError(t, lease.Renew(t.Context()))
}

func TestTrap_T245_ALeaseThatIsBreakingOffersNoEnd(t *testing.T) {
	w := newFixture(t, console.Options{Access: token(t), AllowBreak: true})
	lease := w.hold("jobs/report", nil)
	require.Contains(t, w.page("lease?name=jobs%2Freport", signedIn), "End this lease")
	reply, _ := w.do(http.MethodPost, "break", breaking(lease), signedIn)
	require.Equal(t, http.StatusSeeOther, reply.StatusCode)
	page := w.page("lease?name=jobs%2Freport", signedIn)
	require.Contains(t, page, "pill breaking")
	require.NotContains(t, page, "End this lease")
}
