package authtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"software.sslmate.com/src/go-pkcs12"
)

const certificatePassword = "authtest-certificate-password"

// keyPair is the client's: the file has the certificate too.
type keyPair struct {
	key  *rsa.PrivateKey
	file []byte
}

// pair is made once: an RSA key takes a while.
var pair = sync.OnceValues(func() (keyPair, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return keyPair{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authtest"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.Add(24 * time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return keyPair{}, err
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		return keyPair{}, err
	}
	file, err := pkcs12.Modern.Encode(key, certificate, nil, certificatePassword)
	return keyPair{key, file}, err
})

// signed reports whether the client has signed an assertion:
// learn.microsoft.com/entra/identity-platform/certificate-credentials.
func signed(assertion, audience string) bool {
	own, err := pair()
	if err != nil {
		return false
	}
	_, err = jwt.Parse(assertion, func(*jwt.Token) (any, error) { return &own.key.PublicKey, nil },
		jwt.WithValidMethods([]string{"PS256"}), jwt.WithAudience(audience), jwt.WithIssuer(ClientID), jwt.WithExpirationRequired())
	return err == nil
}
