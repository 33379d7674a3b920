package servertest

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// Certificate is a server's certificate, in PEM files: the self-signed certificate of package
// httptest for loopback addresses.
type Certificate struct {
	Cert, Key string // paths
	pool      *x509.CertPool
}

// NewCertificate writes the files.
func NewCertificate(dir string) (*Certificate, error) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	private, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		return nil, err
	}
	c := &Certificate{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	c.pool.AddCert(server.Certificate())
	return c, errors.Join(writePEM(c.Cert, "CERTIFICATE", server.Certificate().Raw), writePEM(c.Key, "PRIVATE KEY", private))
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

// Trust returns a new configuration that trusts only the certificate, or nil for a nil certificate.
func (c *Certificate) Trust() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{RootCAs: c.pool, MinVersion: tls.VersionTLS12}
}
