package authtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"errors"
	"math/big"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"software.sslmate.com/src/go-pkcs12"
)

const certificatePassword = "authtest-certificate-password"

// keyPair is the client's key, with the file that contains the key and its certificate.
type keyPair struct {
	key  *rsa.PrivateKey
	file []byte
}

// pair returns the certificate of package httptest's servers.
var pair = sync.OnceValues(func() (keyPair, error) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	key, ok := server.TLS.Certificates[0].PrivateKey.(*rsa.PrivateKey)
	if !ok {
		return keyPair{}, errors.New("the key is not an RSA key")
	}
	file, err := pkcs12.Modern.Encode(key, server.Certificate(), nil, certificatePassword)
	return keyPair{key, file}, err
})

// nextPair returns the pair after Rotate.
var nextPair = sync.OnceValues(func() (keyPair, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return keyPair{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(2), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour)}
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
// learn.microsoft.com/entra/identity-platform/certificate-credentials. Caller holds mu.
func (s *Server) signed(assertion, audience string) bool {
	own, err := s.pair()
	if err != nil {
		return false
	}
	_, err = jwt.Parse(assertion, func(*jwt.Token) (any, error) { return &own.key.PublicKey, nil },
		jwt.WithValidMethods([]string{"PS256"}), jwt.WithAudience(audience), jwt.WithIssuer(ClientID), jwt.WithExpirationRequired())
	return err == nil
}
