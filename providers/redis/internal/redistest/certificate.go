package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificate is the proof of who a server is: PEM files, and the authority
// that signed for it.
type certificate struct {
	authority, cert, key string // paths
	root                 *x509.Certificate
}

// newCertificate makes an authority and has it sign for 127.0.0.1 and
// localhost.
func newCertificate(dir string) (*certificate, error) {
	c := &certificate{
		authority: filepath.Join(dir, "ca.pem"),
		cert:      filepath.Join(dir, "cert.pem"),
		key:       filepath.Join(dir, "key.pem"),
	}
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	ca := template("redistest authority")
	ca.IsCA, ca.BasicConstraintsValid, ca.KeyUsage = true, true, x509.KeyUsageCertSign
	if c.root, err = sign(ca, ca, rootKey, rootKey, c.authority); err != nil {
		return nil, err
	}
	return c, c.signServer(rootKey)
}

func (c *certificate) signServer(rootKey *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	server := template("redistest server")
	server.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	server.DNSNames = []string{"localhost"}
	server.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	if _, err := sign(server, c.root, key, rootKey, c.cert); err != nil {
		return err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(c.key, "PRIVATE KEY", der)
}

// template is valid for a day, and since an hour ago.
func template(name string) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(24 * time.Hour),
	}
}

// sign writes a certificate for key, signed by parent, to a file.
func sign(what, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey, path string) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, what, parent, &key.PublicKey, parentKey)
	if err != nil {
		return nil, err
	}
	if err := writePEM(path, "CERTIFICATE", der); err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

func (c *certificate) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(c.root)
	return pool
}

// args tell redis-server of the files. Clients need no certificate.
func (c *certificate) args() []string {
	return []string{
		"--tls-cert-file", c.cert, "--tls-key-file", c.key, "--tls-ca-cert-file", c.authority,
		"--tls-auth-clients", "no",
	}
}
