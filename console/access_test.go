package console_test

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/console"
)

// from sends a request with a given peer address, without a network.
func (w *fixture) from(address string, change ...func(*http.Request)) int {
	req := httptest.NewRequestWithContext(w.t.Context(), http.MethodGet, "http://127.0.0.1/", nil)
	req.RemoteAddr = address
	for _, change := range change {
		change(req)
	}
	recorder := httptest.NewRecorder()
	w.console.ServeHTTP(recorder, req)
	return recorder.Code
}

func TestOnlyThisMachineMayLook(t *testing.T) {
	w := newFixture(t, console.Options{})
	require.Equal(t, http.StatusOK, w.from("127.0.0.1:1"))
	require.Equal(t, http.StatusOK, w.from("[::1]:1"))
	require.Equal(t, http.StatusOK, w.from("[::ffff:127.0.0.1]:1"))
	for _, address := range []string{"10.0.0.1:1", "[2001:db8::1]:1", "", "@"} {
		require.Equal(t, http.StatusForbidden, w.from(address), address)
	}
	for _, name := range []string{"X-Forwarded-For", "Forwarded", "Via", "X-Real-IP"} {
		require.Equal(t, http.StatusForbidden, w.from("127.0.0.1:1", header(name, "10.0.0.1")), name)
	}
}

// forwarded sends the lines of a request unchanged over a connection from this machine, and returns the status.
func (w *fixture) forwarded(lines ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", w.server.Listener.Addr().String())
	require.NoError(w.t, err)
	defer conn.Close()
	require.NoError(w.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	_, err = io.WriteString(conn, strings.Join(lines, "\r\n")+"\r\n\r\n")
	require.NoError(w.t, err)
	status, err := bufio.NewReader(conn).ReadString('\n')
	require.NoError(w.t, err)
	return strings.Fields(status)[1]
}

// Without Access, a request that a proxy of this machine has passed on is refused. A proxy's header
// is refused in any spelling and with any value.
func TestTrap_T130_AnEmptyHeaderOfAProxyIsAHeader(t *testing.T) {
	w := newFixture(t, console.Options{})
	get, at := "GET /leases/ HTTP/1.1", "Host: 127.0.0.1"
	require.Equal(t, "200", w.forwarded(get, at))
	require.Equal(t, "200", w.forwarded(get, at, "User-Agent: x", "Sec-Fetch-Site: none", "Upgrade-Insecure-Requests: 1"))
	for _, name := range []string{
		"X-Forwarded-For", "x-forwarded-for", "X-FORWARDED-FOR", "X_Forwarded_For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded", "X-Forwarded-Client-Cert",
		"Forwarded", "forwarded", "Forwarded-For", "Via", "VIA", "X-Real-IP", "X-Real-Ip", "X-Client-IP", "True-Client-IP", "X-Cluster-Client-IP", "CF-Connecting-IP",
		"X-Original-URL", "X-Original-Forwarded-For", "X-Envoy-External-Address", "X-Amzn-Trace-Id", "CDN-Loop", "Remote-User", "X-Azure-ClientIP",
	} {
		require.Equal(t, "403", w.forwarded(get, at, name+":"), name)
		require.Equal(t, "403", w.forwarded(get, at, name+": 10.0.0.1"), name)
		require.Equal(t, "403", w.forwarded(get, at, name+":", name+": 10.0.0.1"), name)
		raw := func(r *http.Request) { r.Header[name] = nil }
		require.Equal(t, http.StatusForbidden, w.from("127.0.0.1:1", raw), name)
	}
	require.Equal(t, "403", w.forwarded("GET /leases/ HTTP/1.0", at))
	require.Equal(t, "403", w.forwarded("GET /leases/ HTTP/1.0", at, "Connection: keep-alive"))
	for _, host := range []string{"10.0.0.1", "10.0.0.1:8420", "[2001:db8::1]", "0.0.0.0"} {
		require.Equal(t, "403", w.forwarded(get, "Host: "+host), "a proxy passed on the name that its client used")
	}
	two := func(r *http.Request) { r.ProtoMajor, r.ProtoMinor = 2, 0 }
	require.Equal(t, http.StatusOK, w.from("127.0.0.1:1", two))
	require.Equal(t, http.StatusForbidden, w.from("127.0.0.1:1", two, header("X-Forwarded-For", "")))
}

func TestTheZeroOptionsAreReadOnly(t *testing.T) {
	for name, options := range map[string]console.Options{"nobody signs in": {}, "somebody does": {Access: token(t)}} {
		t.Run(name, func(t *testing.T) {
			w := newFixture(t, options)
			lease := w.hold("jobs/report", nil)
			status, _ := w.get("break?name=jobs%2Freport", signedIn)
			require.Equal(t, http.StatusForbidden, status)
			reply, body := w.do(http.MethodPost, "break", breaking(lease), signedIn)
			require.Equal(t, http.StatusForbidden, reply.StatusCode)
			require.Contains(t, body, "read-only")
			require.NoError(t, lease.Renew(t.Context()))
			require.NotContains(t, w.page("lease?name=jobs%2Freport", signedIn), "break?name")
		})
	}
}

func TestToken(t *testing.T) {
	w := newFixture(t, console.Options{Access: token(t), AllowBreak: true})
	lease := w.hold("jobs/report", nil)
	for name, who := range map[string]func(*http.Request){
		"nobody":          func(*http.Request) {},
		"a wrong token":   func(r *http.Request) { r.SetBasicAuth("alice", "b"+secret[1:]) },
		"part of it":      func(r *http.Request) { r.SetBasicAuth("alice", secret[:16]) },
		"no name":         func(r *http.Request) { r.SetBasicAuth("", secret) },
		"a control code":  func(r *http.Request) { r.SetBasicAuth("a\x01b", secret) },
		"another scheme":  header("Authorization", "Bearer "+secret),
		"a proxy's user":  header("X-Forwarded-User", "alice"),
		"a name too long": func(r *http.Request) { r.SetBasicAuth(strings.Repeat("a", 257), secret) },
	} {
		t.Run(name, func(t *testing.T) {
			for _, path := range []string{"", "lease?name=a", "live/leases", "break?name=a", "style.css"} {
				reply, body := w.do(http.MethodGet, path, nil, who)
				require.Equal(t, http.StatusUnauthorized, reply.StatusCode, path)
				require.Contains(t, reply.Header.Get("WWW-Authenticate"), "Basic ")
				require.NotContains(t, body, secret)
			}
			reply, _ := w.do(http.MethodPost, "break", breaking(lease), who)
			require.Equal(t, http.StatusUnauthorized, reply.StatusCode)
			require.NoError(t, lease.Renew(t.Context()))
		})
	}
	require.Contains(t, w.page("", signedIn), "<bdi>alice</bdi>")
}

func TestTheUserOfAProxy(t *testing.T) {
	access, err := console.ProxyUser("X-Forwarded-User", netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("::1/128"))
	require.NoError(t, err)
	w := newFixture(t, console.Options{Access: access})
	user := header("X-Forwarded-User", "alice")
	require.Equal(t, http.StatusOK, w.from("10.1.2.3:1", user))
	require.Equal(t, http.StatusOK, w.from("[::ffff:10.1.2.3]:1", user))
	require.Equal(t, http.StatusOK, w.from("[::1]:1", user))
	require.Equal(t, http.StatusForbidden, w.from("10.2.0.1:1", user), "from elsewhere anybody may say so")
	require.Equal(t, http.StatusForbidden, w.from("127.0.0.1:1", user))
	require.Equal(t, http.StatusForbidden, w.from("10.1.2.3:1"))
	require.Equal(t, http.StatusForbidden, w.from("10.1.2.3:1", header("X-Forwarded-User", "")))
	for _, users := range [][]string{{"", "alice"}, {"alice", ""}, {"alice", "alice"}, {"", ""}, {}} {
		several := func(r *http.Request) { r.Header["X-Forwarded-User"] = users }
		require.Equal(t, http.StatusForbidden, w.from("10.1.2.3:1", several), users)
	}
	twice := func(r *http.Request) { r.Header["X-Forwarded-User"] = []string{"mallory", "alice"} }
	require.Equal(t, http.StatusForbidden, w.from("10.1.2.3:1", twice), "a proxy that lets a client's header through")
	_, err = console.ProxyUser("X-User", netip.Prefix{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
}

// A request for a host name that an attacker has pointed at this machine is refused.
func TestTheHostIsChecked(t *testing.T) {
	w := newFixture(t, console.Options{Hosts: []string{"ops.example.com"}})
	for _, name := range []string{"localhost", "LOCALHOST:8080", "127.0.0.1:1", "[::1]", "[::1]:99", "ops.example.com", "Ops.Example.com:443", "ops.example.com."} {
		status, _ := w.get("", host(name))
		require.Equal(t, http.StatusOK, status, name)
	}
	elsewhere := newFixture(t, console.Options{Access: token(t)})
	status, _ := elsewhere.get("", host("10.0.0.1"), signedIn)
	require.Equal(t, http.StatusOK, status)
	for _, name := range []string{"evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "x.ops.example.com", "example.com"} {
		for _, path := range []string{"", "live/leases", "lease?name=a", "console.js"} {
			status, _ := w.get(path, host(name))
			require.Equal(t, http.StatusMisdirectedRequest, status, name)
		}
	}
}

// breaking returns the values of the form that ends a lease.
func breaking(lease *leasing.Lease) url.Values {
	return url.Values{"name": {lease.Name()}, "typed": {lease.Name()}, "token": {strconv.FormatInt(lease.Token(), 10)}, "reason": {"it hangs"}}
}

func TestBreak(t *testing.T) {
	w := newFixture(t, console.Options{Access: token(t), AllowBreak: true})
	lease := w.hold("jobs/report", nil)
	page := w.page("lease?name=jobs%2Freport", signedIn)
	require.Contains(t, page, `href="break?name=jobs%2freport"`)
	page = w.page("break?name=jobs%2Freport", signedIn)
	require.Contains(t, page, `name="token" value="`+strconv.FormatInt(lease.Token(), 10)+`"`)
	require.Contains(t, page, "<bdi>alice</bdi>")

	change := func(key, value string) url.Values {
		form := breaking(lease)
		form.Set(key, value)
		return form
	}
	for name, form := range map[string]url.Values{
		"The name that you typed does not match": change("typed", "jobs/repor"),
		"Give a reason":                          change("reason", "  "),
		"has no valid token":                     change("token", ""),
		"no valid token":                         change("token", "-1"),
		"The backend refused":                    change("reason", strings.Repeat("x", 513)),
	} {
		reply, body := w.do(http.MethodPost, "break", form, signedIn)
		require.Equal(t, http.StatusBadRequest, reply.StatusCode, name)
		require.Contains(t, body, name)
	}
	reply, body := w.do(http.MethodPost, "break", change("token", strconv.FormatInt(lease.Token()-1, 10)), signedIn)
	require.Equal(t, http.StatusConflict, reply.StatusCode)
	require.Contains(t, body, "nothing was done")
	require.NoError(t, lease.Renew(t.Context()), "nothing has ended it so far")

	reply, _ = w.do(http.MethodPost, "break", breaking(lease), signedIn)
	require.Equal(t, http.StatusSeeOther, reply.StatusCode)
	require.Equal(t, "lease?name=jobs%2Freport", reply.Header.Get("Location"))
	var lost *leasing.LostError
	require.ErrorAs(t, lease.Renew(t.Context()), &lost)
	require.Equal(t, []string{"alice", "it hangs"}, []string{lost.BrokenBy, lost.BreakReason})
	record, err := w.manager.Inspect(t.Context(), "jobs/report")
	require.NoError(t, err)
	require.True(t, record.Held, "it runs out")

	other := w.hold("jobs/other", nil)
	form := breaking(other)
	form.Set("immediate", "1")
	reply, _ = w.do(http.MethodPost, "break", form, signedIn)
	require.Equal(t, http.StatusSeeOther, reply.StatusCode)
	record, err = w.manager.Inspect(t.Context(), "jobs/other")
	require.NoError(t, err)
	require.False(t, record.Held)
	require.Contains(t, w.page("break?name=jobs%2Fother", signedIn), "This name is free.")
}

// Without a user from Access no lease can be broken.
func TestBreakByNobody(t *testing.T) {
	w := newFixture(t, console.Options{Access: func(http.ResponseWriter, *http.Request) (string, bool) { return "", true }, AllowBreak: true})
	lease := w.hold("jobs/report", nil)
	reply, _ := w.do(http.MethodPost, "break", breaking(lease))
	require.Equal(t, http.StatusForbidden, reply.StatusCode)
	require.NoError(t, lease.Renew(t.Context()))
}

// A page of another site can't end a lease, although the browser has the token.
func TestAnotherOriginCantBreak(t *testing.T) {
	w := newFixture(t, console.Options{Access: token(t), AllowBreak: true})
	lease := w.hold("jobs/report", nil)
	for _, change := range []func(*http.Request){
		header("Sec-Fetch-Site", "cross-site"), header("Sec-Fetch-Site", "same-site"), header("Origin", "http://evil.example"), header("Origin", "null"),
	} {
		reply, body := w.do(http.MethodPost, "break", breaking(lease), signedIn, change)
		require.Equal(t, http.StatusForbidden, reply.StatusCode)
		require.Contains(t, body, "another origin")
	}
	require.NoError(t, lease.Renew(t.Context()))
	reply, _ := w.do(http.MethodPost, "break", breaking(lease), signedIn, header("Sec-Fetch-Site", "same-origin"))
	require.Equal(t, http.StatusSeeOther, reply.StatusCode)
}

func TestServe(t *testing.T) {
	w := newFixture(t, console.Options{})
	listen := func(address string) net.Listener {
		listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
		require.NoError(t, err)
		return listener
	}
	short, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	err := console.Serve(short, listen("0.0.0.0:0"), w.manager, console.Options{})
	require.ErrorIs(t, err, leasing.ErrInvalid)
	require.ErrorContains(t, err, "Options.Access")
	require.ErrorIs(t, console.Serve(t.Context(), listen("127.0.0.1:0"), w.manager, console.Options{AllowBreak: true}), leasing.ErrInvalid)

	ctx, cancel := context.WithCancel(t.Context())
	listener, done := listen("127.0.0.1:0"), make(chan error, 1)
	go func() { done <- console.Serve(ctx, listener, w.manager, console.Options{}) }()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+listener.Addr().String()+"/live/leases", nil)
	require.NoError(t, err)
	stream, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	defer stream.Body.Close()
	require.Equal(t, http.StatusOK, stream.StatusCode)
	cancel()
	select {
	case err := <-done:
		require.NoError(t, err)
	case <-time.After(4 * time.Second):
		t.Fatal("a stream holds the server up")
	}
	var rest bytes.Buffer
	_, _ = rest.ReadFrom(stream.Body)
	http.DefaultClient.CloseIdleConnections()
}
