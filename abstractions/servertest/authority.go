package servertest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// Authority issues certificates for servers on loopback addresses and for their clients. Each call
// makes a new certificate and a new key.
type Authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// NewAuthority makes a self-signed authority.
func NewAuthority() (*Authority, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := newTemplate("authority")
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	certificate, err := x509.ParseCertificate(der)
	return &Authority{certificate, key}, err
}

// newTemplate returns the template of a certificate that is valid for an hour. The serial number is
// also part of the subject's name, since a client would confuse authorities with equal names.
func newTemplate(subject string) *x509.Certificate {
	number, _ := rand.Int(rand.Reader, big.NewInt(1<<62)) // never fails: see crypto/rand.Read
	return &x509.Certificate{
		SerialNumber: number, Subject: pkix.Name{CommonName: subject, SerialNumber: number.String()},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
}

// PEM returns the authority's own certificate.
func (a *Authority) PEM() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: a.certificate.Raw})
}

// Issue makes a certificate and its key, in PEM. The subject is the common name, which databases use as
// the user name.
func (a *Authority) Issue(subject string) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	template := newTemplate(subject)
	template.DNSNames, template.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, a.certificate, &private.PublicKey, a.key)
	if err != nil {
		return nil, nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), err
}

// Pair holds the names of the PEM files of one side of a connection.
type Pair struct {
	CA, Cert, Key string // paths: the trusted authority, this side's certificate, and its key
}

// NewPair chooses file names in a folder and writes the files with Replace.
func NewPair(dir, subject string, trusts, issuedBy *Authority) (Pair, error) {
	p := Pair{filepath.Join(dir, "ca.pem"), filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")}
	return p, p.Replace(subject, trusts, issuedBy)
}

// Replace renames new files over the old ones.
func (p Pair) Replace(subject string, trusts, issuedBy *Authority) error {
	certificate, key, err := issuedBy.Issue(subject)
	return errors.Join(err, replace(p.CA, trusts.PEM()), replace(p.Cert, certificate), replace(p.Key, key))
}

func replace(path string, text []byte) error {
	if err := os.WriteFile(path+".new", text, 0o600); err != nil {
		return err
	}
	return os.Rename(path+".new", path)
}
