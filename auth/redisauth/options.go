package redisauth

import (
	"fmt"
	"log/slog"
	"regexp"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/auth"
)

// The defaults of Options.
const (
	// DefaultScope is the scope of Azure's Redis services.
	DefaultScope   = "https://redis.azure.com/.default"
	DefaultTimeout = 10 * time.Second
)

// Options select the identity that signs in. Exactly one of Auth and Credential is required. In
// JSON the fields have the names in their tags. Printing options shows no secret.
type Options struct {
	// Auth selects a mode of package auth.
	Auth auth.Options `json:"auth"`
	// Credential is a credential made elsewhere.
	Credential azcore.TokenCredential `json:"-"`

	// Scope is the scope of the tokens. Default DefaultScope.
	Scope string `json:"scope" option:"default=https://redis.azure.com/.default"`
	// User is the user's name in Redis. Default: the token's claim "oid".
	User string `json:"user"`
	// Timeout bounds a request for a token, since go-redis passes no context. The bounds are 1 ms
	// and 10 min; a managed identity's attempts take less than 10 min. Default DefaultTimeout.
	Timeout time.Duration `json:"-" option:"default=10s,min=1ms,max=10m"`
	// Logger logs a warning when a token can't be replaced. nil logs nothing.
	Logger *slog.Logger `json:"-"`
}

// UnmarshalJSON reads options. Unknown fields are errors.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }

// MarshalJSON writes the options without secrets, like Format, so the result can't be read back
// completely.
func (o Options) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(o) }

// Format prints the fields that are set, without secrets, for all verbs of package fmt.
func (o Options) Format(f fmt.State, _ rune) { providerkit.Format(f, o) }

var printable = regexp.MustCompile(`^[!-~]*$`)

// complete validates the options, fills in the defaults, and makes the credential.
func (o Options) complete() (Options, error) {
	if err := providerkit.Complete(&o); err != nil {
		return o, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if !printable.MatchString(o.Scope) {
		return o, &leasing.InvalidError{Field: "Options.Scope", Value: o.Scope, Want: "a scope, such as " + DefaultScope}
	}
	if !printable.MatchString(o.User) {
		return o, &leasing.InvalidError{Field: "Options.User", Value: o.User, Want: "the user's name in Redis, without blanks"}
	}
	given, err := providerkit.ExactlyOne(o, "Auth", "Credential")
	if given == "Auth" {
		o.Credential, err = auth.New(o.Auth)
	}
	return o, err
}
