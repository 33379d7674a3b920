package azuritetest

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
)

// Account is the name of the account of each server.
const Account = "leasingtest"

// Options say what a server is like.
type Options struct {
	// Tokens has it speak https, and accept bearer tokens beside the key: any JWT
	// with the right audience, issuer and times, signed or not.
	Tokens bool
}

// Server is Azurite's blob service on a loopback port that it keeps.
type Server struct {
	dir  string
	key  string
	cert *certificate // nil without tokens

	mu      sync.Mutex // over what follows, while it starts or ends
	port    int
	process *process
	runs    int
}

// Start starts a server that ends with the test.
func Start(t testing.TB, options Options) *Server {
	t.Helper()
	s, err := newServer(t.TempDir(), options)
	if err != nil {
		t.Fatalf("a test server did not start: %v", err)
	}
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("the last words of the server: %s", s.process.tail())
		}
	})
	return s
}

// newServer starts a server on a free port below those that systems give to
// outgoing connections (from 32768 on Linux), so that no client of anybody sits on
// the port of a server that is about to be restarted.
func newServer(dir string, options Options) (*Server, error) {
	var secret [32]byte
	rand.Read(secret[:]) // never fails: see crypto/rand
	s := &Server{dir: dir, key: base64.StdEncoding.EncodeToString(secret[:])}
	if options.Tokens {
		var err error
		if s.cert, err = newCertificate(dir); err != nil {
			return nil, err
		}
	}
	for {
		s.port = 15000 + mathrand.IntN(17000)
		if !vacant(s.port) {
			continue
		}
		if err := s.run(); !errors.Is(err, errPortTaken) {
			return s, err
		}
	}
}

func vacant(port int) bool {
	var config net.ListenConfig
	listener, err := config.Listen(context.Background(), "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	return err == nil && listener.Close() == nil
}

// run starts a process on the server's port and waits until it answers.
func (s *Server) run() error {
	node, main, err := program()
	if err != nil {
		return err
	}
	args := []string{
		main, "--blobHost", "127.0.0.1", "--blobPort", fmt.Sprint(s.port), "--blobKeepAliveTimeout", "600",
		"--inMemoryPersistence", "--skipApiVersionCheck", "--disableTelemetry", "--silent",
	}
	if s.cert != nil {
		args = append(args, "--oauth", "basic", "--cert", s.cert.cert, "--key", s.cert.key)
	}
	s.runs++
	p, err := startProcess(node, args, []string{"AZURITE_ACCOUNTS=" + Account + ":" + s.key}, filepath.Join(s.dir, fmt.Sprintf("log-%d", s.runs)))
	if err != nil {
		return err
	}
	s.process = p
	if err := p.ready(context.Background()); err != nil {
		p.kill()
		return err
	}
	return nil
}

// URL is the account's address, without a slash at its end.
func (s *Server) URL() string {
	scheme := "http"
	if s.cert != nil {
		scheme = "https"
	}
	return fmt.Sprintf("%s://127.0.0.1:%d/%s", scheme, s.port, Account)
}

// Key is the account's.
func (s *Server) Key() string { return s.key }

// ConnectionString is the account's.
func (s *Server) ConnectionString() string {
	return fmt.Sprintf("AccountName=%s;AccountKey=%s;BlobEndpoint=%s", Account, s.key, s.URL())
}

// Transport is one that trusts the server. Its idle connections are the caller's
// to close.
func (s *Server) Transport() *http.Transport {
	transport := &http.Transport{MaxIdleConnsPerHost: 64}
	if s.cert != nil {
		transport.TLSClientConfig = &tls.Config{RootCAs: s.cert.pool, MinVersion: tls.VersionTLS12}
	}
	return transport
}

// Kill ends the server at once, and waits for its end. One that has ended stays so.
func (s *Server) Kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.kill()
}

// Restart kills the server, if it still runs, and starts it on the same port,
// without its data.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process.kill()
	if err := s.run(); err != nil {
		t.Fatalf("restarting the server on port %d: %v", s.port, err)
	}
}

// Pause freezes the server (SIGSTOP): its connections stay open and nothing
// answers.
func (s *Server) Pause(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := pause(s.process.os); err != nil {
		t.Fatalf("pausing the server on port %d: %v", s.port, err)
	}
}

// Resume lets a paused server go on (SIGCONT).
func (s *Server) Resume(t testing.TB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := resume(s.process.os); err != nil {
		t.Fatalf("resuming the server on port %d: %v", s.port, err)
	}
}
