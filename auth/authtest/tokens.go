package authtest

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// sign makes an unsigned token: no service in a test checks signatures. Caller holds mu.
func (s *Server) sign(audience string) (token string, expires time.Time) {
	now := time.Now()
	expires = now.Add(s.lifetime)
	token, err := jwt.NewWithClaims(jwt.SigningMethodNone, jwt.MapClaims{
		"aud": audience, "iss": "https://sts.windows.net/" + TenantID + "/",
		"iat": now.Unix(), "nbf": now.Unix(), "exp": expires.Unix(),
		"appid": ClientID, "oid": s.object, "sub": s.object, "tid": TenantID, "uti": rand.Text(), "ver": "1.0",
	}).SignedString(jwt.UnsafeAllowNoneSignatureType)
	if err != nil {
		s.t.Errorf("authtest: %v", err)
	}
	return token, expires
}

// newSubject makes a token of another issuer. Caller holds mu.
func (s *Server) newSubject() string {
	token, _ := s.sign("api://AzureADTokenExchange")
	s.subjects[token] = true
	return token
}

// Check returns nil if a fake service may accept a token: this server issued it for the given
// audience, and it has not expired.
func (s *Server) Check(token, audience string) error {
	if !slices.Contains(s.Issued(), token) {
		return errors.New("authtest: the token was not issued here")
	}
	claims := jwt.MapClaims{}
	_, _, err := jwt.NewParser().ParseUnverified(token, claims)
	if err == nil {
		err = jwt.NewValidator(jwt.WithAudience(audience), jwt.WithExpirationRequired()).Validate(claims)
	}
	if err != nil {
		return fmt.Errorf("authtest: a token for %v, asked for at %s: %w", claims["aud"], audience, err)
	}
	return nil
}

// random returns a secret that a test can search for.
func random(name string) string { return "authtest-" + name + "-" + strings.ToLower(rand.Text()) }
