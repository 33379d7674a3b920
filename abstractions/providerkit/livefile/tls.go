package livefile

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"sync"

	"github.com/distributedleasing/leasing/abstractions"
)

// TLS makes the configurations of a client's TLS connections from files in PEM. It is safe for concurrent use.
type TLS struct {
	roots *Value[*x509.CertPool]
	pair  *Value[*tls.Certificate]

	mu      sync.Mutex
	current *tls.Config // made from the two values below
	pool    *x509.CertPool
	cert    *tls.Certificate
}

// NewTLS reads the certificates of the authorities to trust, and the client's certificate and key. If
// caFile is empty, the system's authorities are trusted. If certFile and keyFile are empty, the
// client has no certificate. For invalid files the error is leasing.ErrInvalid.
func NewTLS(caFile, certFile, keyFile string) (*TLS, error) {
	t := &TLS{roots: New(parseRoots), pair: New(parsePair)}
	if caFile != "" {
		t.roots = New(parseRoots, caFile)
	}
	if certFile != "" || keyFile != "" {
		t.pair = New(parsePair, certFile, keyFile)
	}
	if _, err := t.roots.Get(); err != nil {
		return nil, fmt.Errorf("%w: the file of certificate authorities: %w", abstractions.ErrInvalid, err)
	}
	if _, err := t.pair.Get(); err != nil {
		return nil, fmt.Errorf("%w: the client's certificate or its key: %w", abstractions.ErrInvalid, err)
	}
	return t, nil
}

// Config checks the files for changes, and returns the configuration for the next connection. The same
// configuration is returned until the files change. A caller must clone the configuration before
// changing it in any way.
//
// The configuration verifies servers as crypto/tls does by default, with the name or the IP address that
// the client sets: a hook for verification would not see an IP address (tls.ConnectionState.ServerName).
func (t *TLS) Config() *tls.Config {
	pool, _ := t.roots.Get() // NewTLS has ensured that there is a value
	cert, _ := t.pair.Get()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == nil || t.pool != pool || t.cert != cert {
		t.pool, t.cert = pool, cert
		t.current = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: pool}
		if cert != nil {
			t.current.Certificates = []tls.Certificate{*cert}
		}
	}
	return t.current
}

// Explain returns err, the error of a connection, together with the reason, if any, why the newest
// contents of the files are not in use. err stays in the chain.
func (t *TLS) Explain(err error) error {
	if stale := errors.Join(t.roots.Stale(), t.pair.Stale()); err != nil && stale != nil {
		return fmt.Errorf("%w (the newest TLS files are not in use: %v)", err, stale)
	}
	return err
}

func parseRoots(contents [][]byte) (*x509.CertPool, error) {
	if len(contents) == 0 {
		return nil, nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(contents[0]) {
		return nil, errors.New("no certificate found")
	}
	return pool, nil
}

func parsePair(contents [][]byte) (*tls.Certificate, error) {
	if len(contents) == 0 {
		return nil, nil
	}
	pair, err := tls.X509KeyPair(contents[0], contents[1])
	if err != nil {
		return nil, err
	}
	return &pair, nil
}
