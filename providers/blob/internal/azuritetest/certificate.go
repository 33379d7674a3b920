package azuritetest

import (
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http/httptest"
	"os"
	"path/filepath"
)

// certificate is a server's, in PEM files: the one for loopback addresses that package
// httptest has.
type certificate struct {
	cert, key string // paths
	pool      *x509.CertPool
}

func newCertificate(dir string) (*certificate, error) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	private, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		return nil, err
	}
	c := &certificate{cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"), pool: x509.NewCertPool()}
	c.pool.AddCert(server.Certificate())
	return c, errors.Join(writePEM(c.cert, "CERTIFICATE", server.Certificate().Raw), writePEM(c.key, "PRIVATE KEY", private))
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}
