package servertest

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"sync"
	"testing"
)

// Front is a TLS listener in front of a server without TLS. It admits only clients with a
// certificate of the authority that issued the front's own certificate. A front of NewPublicFront
// admits every client.
type Front struct {
	t        testing.TB
	listener net.Listener
	protocol string // for ALPN
	public   bool   // clients need no certificate

	mu     sync.Mutex
	config *tls.Config
	open   map[net.Conn]struct{}
}

// NewFront starts a front for the server at an address. protocol is the front's ALPN protocol, "h2"
// or "http/1.1".
func NewFront(t testing.TB, server, protocol string, a *Authority) *Front {
	t.Helper()
	return newFront(t, server, protocol, a, false)
}

// NewPublicFront is NewFront for clients without certificates.
func NewPublicFront(t testing.TB, server, protocol string, a *Authority) *Front {
	t.Helper()
	return newFront(t, server, protocol, a, true)
}

func newFront(t testing.TB, server, protocol string, a *Authority, public bool) *Front {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	f := &Front{t: t, listener: listener, protocol: protocol, public: public, open: map[net.Conn]struct{}{}}
	f.Replace(a)
	var serving sync.WaitGroup
	serving.Go(func() { f.serve(server, &serving) })
	t.Cleanup(func() {
		_ = listener.Close()
		f.closeConnections()
		serving.Wait()
	})
	return f
}

// Addr returns the address of the front, "127.0.0.1:port".
func (f *Front) Addr() string { return f.listener.Addr().String() }

// Replace gives the front a new certificate from an authority and closes all connections. From then
// on the front, unless it is public, admits only clients of that authority.
func (f *Front) Replace(a *Authority) {
	f.t.Helper()
	certificate, key, err := a.Issue("server")
	if err != nil {
		f.t.Fatal(err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		f.t.Fatal(err)
	}
	clients := x509.NewCertPool()
	clients.AddCert(a.certificate)
	f.mu.Lock()
	f.config = &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
		NextProtos: []string{f.protocol}, MinVersion: tls.VersionTLS12,
	}
	if f.public {
		f.config.ClientAuth = tls.NoClientCert
	}
	f.mu.Unlock()
	f.closeConnections()
}

func (f *Front) closeConnections() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for conn := range f.open {
		_ = conn.Close()
	}
	clear(f.open)
}

func (f *Front) serve(server string, serving *sync.WaitGroup) {
	for {
		near, err := f.listener.Accept()
		if err != nil {
			return
		}
		far, err := (&net.Dialer{}).DialContext(f.t.Context(), "tcp", server)
		if err != nil {
			_ = near.Close()
			continue
		}
		f.mu.Lock()
		f.open[near], f.open[far] = struct{}{}, struct{}{}
		secure := tls.Server(near, f.config)
		f.mu.Unlock()
		for _, pipe := range [][2]net.Conn{{far, secure}, {secure, far}} {
			serving.Go(func() {
				_, _ = io.Copy(pipe[0], pipe[1])
				_, _ = near.Close(), far.Close()
			})
		}
	}
}
