package redisauth

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing"
	redisauth "github.com/redis/go-redis/v9/auth"
)

// signIn is a user and a token in the form that go-redis expects. Printing it does not show the token.
type signIn struct {
	user, token string
	expires     time.Time
	renewAt     time.Time
}

var _ redisauth.Credentials = (*signIn)(nil)

// BasicAuth returns the arguments of AUTH.
func (s *signIn) BasicAuth() (username, password string) { return s.user, s.token }

// RawCredentials returns the token.
func (s *signIn) RawCredentials() string { return s.token }

// Format prints the user, and not the token.
func (s *signIn) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "redisauth: %s until %v", s.user, s.expires)
}

// renewBefore is the remaining lifetime at which, at the latest, a token is replaced. Before that,
// azidentity returns the same token.
const renewBefore = 5 * time.Minute

// newSignIn parses a token that was received at now.
func newSignIn(user string, token azcore.AccessToken, now time.Time) (*signIn, error) {
	if user == "" {
		var err error
		if user, err = objectID(token.Token); err != nil {
			return nil, err
		}
	}
	left := token.ExpiresOn.Sub(now)
	if left <= 0 {
		return nil, fmt.Errorf("%w: the token expired %v ago: is the clock right?", leasing.ErrUnavailable, -left)
	}
	s := &signIn{user: user, token: token.Token, expires: token.ExpiresOn}
	s.renewAt = token.ExpiresOn.Add(-min(renewBefore, left/4))
	if r := token.RefreshOn; !r.IsZero() && r.Before(s.renewAt) {
		s.renewAt = r
	}
	return s, nil
}

// objectID reads the claim by which Azure names its users
// (learn.microsoft.com/entra/identity-platform/access-token-claims-reference).
// Redis checks the token's signature; this package does not.
func objectID(token string) (string, error) {
	var claims struct {
		ObjectID string `json:"oid"`
	}
	parts := strings.Split(token, ".")
	if len(parts) == 3 {
		body, _ := base64.RawURLEncoding.DecodeString(parts[1])
		_ = json.Unmarshal(body, &claims) // if decoding fails, there is no claim
	}
	if claims.ObjectID == "" {
		return "", fmt.Errorf(`%w: the token is no JWT with a claim "oid": set redisauth.Options.User`, leasing.ErrDenied)
	}
	return claims.ObjectID, nil
}
