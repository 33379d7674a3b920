package redisauth

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/auth"
)

// The defaults of Options.
const (
	// DefaultScope is what tokens are for.
	DefaultScope   = "https://redis.azure.com/.default"
	DefaultTimeout = 10 * time.Second
)

// Options say who signs in. One of Auth and Credential is required. In JSON the
// fields have the names in their tags. Printing options shows no secret.
type Options struct {
	// Auth is a mode of package auth.
	Auth auth.Options `json:"auth"`
	// Credential is one made elsewhere.
	Credential azcore.TokenCredential `json:"-"`

	// Scope is what tokens are asked for. Default DefaultScope.
	Scope string `json:"Scope"`
	// User is the user's name in Redis. Default: the token's claim "oid".
	User string `json:"User"`
	// Timeout bounds a request for a token: go-redis gives no context.
	// Default DefaultTimeout.
	Timeout time.Duration `json:"-"`
	// Logger is told when a token can't be replaced. nil is silent.
	Logger *slog.Logger `json:"-"`
}

// UnmarshalJSON reads options. Fields that it doesn't know are an error.
func (o *Options) UnmarshalJSON(data []byte) error {
	type plain Options // without this method
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode((*plain)(o))
	if named := (*leasing.InvalidError)(nil); err == nil || errors.As(err, &named) {
		return err
	}
	return &leasing.InvalidError{Field: "redisauth.Options", Value: "(not shown)", Want: "the JSON of redisauth.Options: " + err.Error()}
}

// maxTimeout is more than a managed identity's attempts take.
const maxTimeout = 10 * time.Minute

var printable = regexp.MustCompile(`^[!-~]*$`)

// complete validates the options and fills in the defaults.
func (o Options) complete() (Options, error) {
	if o.Scope == "" {
		o.Scope = DefaultScope
	}
	if o.Timeout == 0 {
		o.Timeout = DefaultTimeout
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if !printable.MatchString(o.Scope) {
		return o, &leasing.InvalidError{Field: "redisauth.Options.Scope", Value: o.Scope, Want: "what a token is for, such as " + DefaultScope}
	}
	if !printable.MatchString(o.User) {
		return o, &leasing.InvalidError{Field: "redisauth.Options.User", Value: o.User, Want: "the user's name in Redis, without blanks"}
	}
	if o.Timeout < time.Millisecond || o.Timeout > maxTimeout {
		return o, &leasing.InvalidError{Field: "redisauth.Options.Timeout", Value: o.Timeout, Want: "1ms to 10m; or 0 for the default"}
	}
	return o.withCredential()
}

// withCredential makes a credential of Auth.
func (o Options) withCredential() (Options, error) {
	given := "with neither"
	switch {
	case o.Credential != nil && o.Auth.IsZero():
		return o, nil
	case o.Credential == nil && !o.Auth.IsZero():
		credential, err := auth.New(o.Auth)
		o.Credential = credential
		return o, err
	case o.Credential != nil:
		given = "with both"
	}
	return o, &leasing.InvalidError{Field: "redisauth.Options", Value: given, Want: "Auth or Credential"}
}
