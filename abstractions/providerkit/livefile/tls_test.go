package livefile

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/servertest"
)

func authority(t *testing.T) *servertest.Authority {
	t.Helper()
	a, err := servertest.NewAuthority()
	require.NoError(t, err)
	return a
}

// mutual is a server that requires client certificates from its own authority, which may be
// replaced.
type mutual struct {
	*httptest.Server
	config atomic.Pointer[tls.Config]
}

func newMutual(t *testing.T, a *servertest.Authority) *mutual {
	m := &mutual{Server: httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Proto))
	}))}
	m.trust(t, a)
	m.EnableHTTP2 = true
	m.TLS = &tls.Config{GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return m.config.Load(), nil }}
	m.StartTLS()
	t.Cleanup(m.Close)
	return m
}

func (m *mutual) trust(t *testing.T, a *servertest.Authority) {
	t.Helper()
	certificate, key, err := a.Issue("server")
	require.NoError(t, err)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(t, err)
	roots := x509.NewCertPool()
	require.True(t, roots.AppendCertsFromPEM(a.PEM()))
	m.config.Store(&tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: roots, NextProtos: []string{"h2", "http/1.1"},
	})
}

func TestTransportFollowsItsFiles(t *testing.T) {
	first, second := authority(t), authority(t)
	server := newMutual(t, first)
	files, err := servertest.NewPair(t.TempDir(), "client", first, first)
	require.NoError(t, err)
	live, err := NewTLS(files.CA, files.Cert, files.Key)
	require.NoError(t, err)
	for _, base := range []*http.Transport{{}, {ForceAttemptHTTP2: true}, {Proxy: http.ProxyURL(newProxy(t))}} {
		require.NoError(t, files.Replace("client", first, first))
		server.trust(t, first)
		transport := live.Transport(base)
		get := func() (string, error) {
			req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
			require.NoError(t, err)
			response, err := transport.RoundTrip(req)
			if err != nil {
				return "", err
			}
			return response.Proto, response.Body.Close()
		}
		proto, err := get()
		require.NoError(t, err)
		require.Equal(t, base.ForceAttemptHTTP2, proto == "HTTP/2.0")

		server.trust(t, second)
		server.CloseClientConnections()
		transport.CloseIdleConnections()
		_, err = get()
		require.Error(t, err)
		require.NotContains(t, err.Error(), "not in use")

		// First the authority and the certificate are replaced, but not the certificate's key.
		certificate, _, err := second.Issue("client")
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(files.CA, second.PEM(), 0o600))
		require.NoError(t, os.WriteFile(files.Cert, certificate, 0o600))
		_, err = get()
		require.ErrorContains(t, err, "not in use")
		require.NotContains(t, err.Error(), "unknown authority", "the new authority is in use, the client's certificate is not")

		require.NoError(t, files.Replace("client", second, second))
		_, err = get()
		require.NoError(t, err)
		transport.CloseIdleConnections()
	}
}

// A server with a certificate of the newest authority must still have the name that the client asks for.
func TestTheNameIsVerified(t *testing.T) {
	first := authority(t)
	server := newMutual(t, first)
	files, err := servertest.NewPair(t.TempDir(), "client", first, first)
	require.NoError(t, err)
	live, err := NewTLS(files.CA, files.Cert, files.Key)
	require.NoError(t, err)
	require.NoError(t, files.Replace("client", first, first)) // as if the authority were replaced
	_, port, err := net.SplitHostPort(server.Listener.Addr().String())
	require.NoError(t, err)
	transport := live.Transport(&http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}})
	for _, host := range []string{"127.0.0.2", "localhost.localdomain"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+net.JoinHostPort(host, port), nil)
		require.NoError(t, err)
		config := live.Config().Clone()
		config.ServerName = host
		conn, err := tls.Dial("tcp", server.Listener.Addr().String(), config)
		require.ErrorAs(t, err, new(x509.HostnameError), "%v", conn)
		_, err = transport.RoundTrip(req) //nolint:bodyclose // there is none
		require.ErrorAs(t, err, new(x509.HostnameError))
	}
}

func TestFilesThatCantWork(t *testing.T) {
	first := authority(t)
	files, err := servertest.NewPair(t.TempDir(), "client", first, first)
	require.NoError(t, err)
	for _, names := range [][3]string{
		{os.DevNull}, {files.CA + ".none"}, {files.CA, files.Cert, ""}, {files.CA, "", files.Key}, {files.CA, files.Key, files.Cert},
	} {
		_, err := NewTLS(names[0], names[1], names[2])
		require.ErrorIs(t, err, abstractions.ErrInvalid, "%v", names)
	}
	live, err := NewTLS("", "", "")
	require.NoError(t, err)
	require.Nil(t, live.Config().RootCAs)
	initial := live.Config()
	require.Same(t, initial, live.Config())
}

// newProxy starts a proxy that connects to any host that a client asks for.
func newProxy(t *testing.T) *url.URL {
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		far, err := (&net.Dialer{}).DialContext(r.Context(), "tcp", r.Host)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			_ = far.Close()
			return
		}
		_, _ = near.Write([]byte("HTTP/1.1 200 OK\r\n\r\n"))
		relay(near, far)
	}))
	t.Cleanup(proxy.Close)
	address, err := url.Parse(proxy.URL)
	require.NoError(t, err)
	return address
}

func relay(a, b net.Conn) {
	copyTo := func(to, from net.Conn) {
		buffer := make([]byte, 32<<10)
		for {
			n, err := from.Read(buffer)
			if _, failed := to.Write(buffer[:n]); err != nil || failed != nil {
				break
			}
		}
		_, _ = a.Close(), b.Close()
	}
	go copyTo(a, b)
	copyTo(b, a)
}
