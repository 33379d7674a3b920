package authtest

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
)

// claims are what a token says.
type claims struct {
	Audience  string `json:"aud"`
	Issuer    string `json:"iss"`
	Issued    int64  `json:"iat"`
	NotBefore int64  `json:"nbf"`
	Expires   int64  `json:"exp"`
	AppID     string `json:"appid"`
	ObjectID  string `json:"oid"`
	Subject   string `json:"sub"`
	TenantID  string `json:"tid"`
	ID        string `json:"uti"`
	Version   string `json:"ver"`
}

// issue makes a token; mu is held.
func (s *Server) issue(audience string) (token string, expires time.Time) {
	token, expires = s.sign(audience)
	s.issued = append(s.issued, token)
	return token, expires
}

// sign has no key: the tokens are for those who don't look.
func (s *Server) sign(audience string) (token string, expires time.Time) {
	now := time.Now()
	expires = now.Add(s.lifetime)
	body, _ := json.Marshal(claims{ // strings and numbers
		Audience: audience, Issuer: "https://sts.windows.net/" + TenantID + "/",
		Issued: now.Unix(), NotBefore: now.Unix(), Expires: expires.Unix(),
		AppID: ClientID, ObjectID: s.object, Subject: s.object, TenantID: TenantID, ID: rand.Text(), Version: "1.0",
	})
	return encode([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + encode(body) + ".", expires
}

// newSubject makes a token of another issuer; mu is held.
func (s *Server) newSubject() string {
	token, _ := s.sign("api://AzureADTokenExchange")
	s.subjects[token] = true
	return token
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// parse reads a token's claims.
func parse(token string) (claims, error) {
	parts := strings.Split(token, ".")
	var c claims
	if len(parts) != 3 {
		return c, errors.New("authtest: no JWT")
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(body, &c) != nil {
		return c, errors.New("authtest: no JWT of ours")
	}
	return c, nil
}

// random is a secret that a test can look for.
func random(name string) string { return "authtest-" + name + "-" + strings.ToLower(rand.Text()) }

// uuid is a random one (RFC 9562, version 4).
func uuid() string {
	b := make([]byte, 16)
	_, _ = rand.Read(b) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}
