package consullease

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
)

// Options configure a provider. The zero value uses the agent on the local machine.
//
// In JSON, and as the query of a URL, the fields have the names in their tags. Printing
// options, logging them, and writing them as JSON show no secret.
type Options struct {
	// URL is one of
	//
	//	consul://host:8500/prefix
	//	consul+https://:token@host:8501/prefix?datacenter=dc1
	//
	// The query may set the fields below that have a tag, except the token.
	URL string `json:"url" option:"secret"`

	// Address is the address of an agent, preferably on the local machine. Default
	// http://127.0.0.1:8500.
	Address string `json:"address" option:"secret,default=http://127.0.0.1:8500"`
	// Prefix is the first part of all keys, before a slash. Processes exclude each other
	// only if they use the same Prefix and the same datacenter. Default "leases".
	Prefix string `json:"prefix" option:"default=leases,path,maxlen=200"`
	// Datacenter is the datacenter of the entries; datacenters do not share entries.
	// Default: the agent's datacenter.
	Datacenter string `json:"datacenter"`
	// Token is an ACL token with key_prefix "leases/" { policy = "write" }. Default: no token.
	Token providerkit.Secret `json:"token"`
	// Secret, in place of Token, returns a token that may change. Each request calls it, from several goroutines at a time,
	// so it should cache the token. An error counts as a failure of the credentials, and the request is not sent.
	Secret func(ctx context.Context) (string, error) `json:"-"`
	// SecretFile is the path of a file with a token. Each request uses the newest valid contents of the file.
	SecretFile string `json:"secret_file"`
	// Client sends the requests: set it for your own CA or client certificate. It must
	// not retry writes. Default: a client that trusts the system's CAs.
	Client *http.Client `json:"-"`

	// Retention is the time for which a name is remembered after its last use: see
	// Provider.Sweep. At least a minute, which is far longer than a call takes, or
	// abstractions.Infinite. Default an hour.
	Retention time.Duration `json:"retention" option:"retention,min=1m"`
	// Timeout bounds a call whose context has no deadline. Default 10 s.
	Timeout time.Duration `json:"timeout" option:"timeout"`
}

// Format prints the options without their secrets.
func (o Options) Format(f fmt.State, _ rune) { providerkit.Format(f, o) }

// MarshalJSON returns the text of Format as a JSON string: options with secrets can't be saved as JSON.
func (o Options) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(o) }

// UnmarshalJSON reads options.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }

// readURL sets the fields that Options.URL contains.
func (o *Options) readURL() error {
	u, prefix, err := providerkit.ReadURL(o, o.URL, urlSchemes...)
	if err != nil {
		return err
	}
	if u.Host == "" || u.User != "" || o.Address != "" || prefix != "" && o.Prefix != "" || !u.Password.IsZero() && !o.Token.IsZero() {
		return providerkit.BadURL("consul://:token@host:8500/prefix, with none of these parts in Options")
	}
	if !u.Password.IsZero() {
		o.Token = u.Password
	}
	o.URL, o.Prefix, o.Address = "", o.Prefix+prefix, "http://"+u.Host
	if u.Scheme == secureScheme {
		o.Address = "https://" + u.Host
	}
	return nil
}

// complete sets the defaults and checks the options.
func (o *Options) complete() error {
	if o.URL != "" {
		if err := o.readURL(); err != nil {
			return err
		}
	}
	if err := providerkit.Complete(o); err != nil {
		return err
	}
	address, err := url.Parse(o.Address)
	switch {
	case err != nil || address.Scheme != "https" && address.Scheme != "http" || address.Host == "" || address.User != nil ||
		strings.Trim(address.Path, "/") != "" || address.RawQuery != "" || address.Fragment != "":
		return providerkit.BadOption("Address", providerkit.NotShown, "http://host:8500 or https://host:8501, without user, password and path")
	}
	o.Address = address.Scheme + "://" + address.Host
	return validToken(o.Token.Reveal())
}

func validToken(token string) error {
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return providerkit.BadOption("Token", providerkit.NotShown, "a token of visible ASCII characters")
	}
	return nil
}

// tokens returns the source of each request's token. A token may be "".
func (o *Options) tokens() (livefile.Source, error) {
	switch {
	case o.Secret == nil && o.SecretFile == "":
		token := o.Token.Reveal()
		return func(context.Context) (string, error) { return token, nil }, nil
	case !o.Token.IsZero(), o.Secret != nil && o.SecretFile != "":
		return nil, providerkit.BadOption("Secret", providerkit.NotShown, "one of Token, Secret and SecretFile")
	}
	return livefile.NewSource(o.Secret, o.SecretFile, validToken)
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener returns the opener of URLs that begin with consul:// or consul+https://, for
// package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

const secureScheme = "consul+https"

var urlSchemes = []string{"consul", secureScheme}
