package authtest

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"math/big"
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

// The pairs before and after Rotate. All servers of a process share the two pairs.
var pair, nextPair = sync.OnceValues(newPair), sync.OnceValues(newPair)

func newPair() (keyPair, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return keyPair{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().AddDate(100, 0, 0)}
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
}

// certificate returns the content of the client's file. Caller holds mu.
func (s *Server) certificate() string {
	own, err := s.pair()
	if err != nil {
		s.t.Errorf("authtest: the certificate: %v", err)
	}
	return string(own.file)
}

// isSigned reports whether the client has signed an assertion:
// learn.microsoft.com/entra/identity-platform/certificate-credentials. Caller holds mu.
func (s *Server) isSigned(assertion, audience string) bool {
	own, err := s.pair()
	if err != nil {
		return false
	}
	_, err = jwt.Parse(assertion, func(*jwt.Token) (any, error) { return &own.key.PublicKey, nil },
		jwt.WithValidMethods([]string{"PS256"}), jwt.WithAudience(audience), jwt.WithIssuer(ClientID), jwt.WithExpirationRequired())
	return err == nil
}
