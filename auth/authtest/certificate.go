package authtest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"math/big"
	"strings"
	"sync"
	"time"

	"software.sslmate.com/src/go-pkcs12"
)

const certificatePassword = "authtest-certificate-password"

// keyPair is the client's.
type keyPair struct {
	key         *rsa.PrivateKey
	certificate *x509.Certificate
	pkcs12      []byte
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
	data, err := pkcs12.Modern.Encode(key, certificate, nil, certificatePassword)
	return keyPair{key, certificate, data}, err
})

// trusts reports whether an assertion is another issuer's token, or one that the
// client has signed; mu is held.
func (s *Server) trusts(assertion, audience string) bool {
	return s.subjects[assertion] || signed(assertion, audience)
}

// signed is learn.microsoft.com/entra/identity-platform/certificate-credentials.
func signed(assertion, audience string) bool {
	parts := strings.Split(assertion, ".")
	own, err := pair()
	if len(parts) != 3 || err != nil {
		return false
	}
	var header struct {
		Algorithm  string `json:"alg"`
		Thumbprint string `json:"x5t#S256"`
	}
	var body struct {
		Audience string `json:"aud"`
		Issuer   string `json:"iss"`
		Expires  int64  `json:"exp"`
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !decode(parts[0], &header) || !decode(parts[1], &body) {
		return false
	}
	thumbprint := sha256.Sum256(own.certificate.Raw)
	digest := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	return header.Algorithm == "PS256" && sameBytes(header.Thumbprint, thumbprint[:]) &&
		body.Audience == audience && body.Issuer == ClientID && body.Expires > time.Now().Unix() &&
		rsa.VerifyPSS(&own.key.PublicKey, crypto.SHA256, digest[:], signature, nil) == nil
}

func decode(part string, into any) bool {
	data, err := base64.RawURLEncoding.DecodeString(part)
	return err == nil && json.Unmarshal(data, into) == nil
}

// sameBytes compares whatever alphabet and padding the text is in.
func sameBytes(text string, want []byte) bool {
	text = strings.NewReplacer("+", "-", "/", "_", "=", "").Replace(text)
	return text == encode(want)
}
