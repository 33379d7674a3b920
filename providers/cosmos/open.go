package cosmoslease

import (
	"context"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/auth"
)

// Open returns a provider. It makes no request: an account that can't be reached,
// or refuses, or lacks the container, shows at the first use. Options that can't
// work are reported as leasing.ErrInvalid.
//
// The first use reads the account and the container beside what it does: two more
// requests. The identity needs no more rights than RoleDefinition says.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	source, err := options.source()
	if err != nil {
		return nil, err
	}
	switch source {
	case "URL":
		options, err = options.withURL()
	case "ConnectionString":
		options, err = options.withConnectionString()
	}
	if err != nil {
		return nil, err
	}
	access, err := options.access()
	if err != nil {
		return nil, err
	}
	if options, err = options.complete(); err != nil {
		return nil, err
	}
	if options, err = options.withCredential(access); err != nil {
		return nil, err
	}
	return open(options), nil
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// withCredential makes a credential of Options.Auth. It sends nothing.
func (o Options) withCredential(access string) (Options, error) {
	if access != "Auth" {
		return o, nil
	}
	var err error
	if o.Credential, err = auth.New(o.Auth); err != nil {
		return o, err
	}
	if o.ClientOptions.Cloud.ActiveDirectoryAuthorityHost == "" {
		o.ClientOptions.Cloud, err = o.Auth.CloudConfiguration()
	}
	return o, err
}

func open(o Options) *Provider {
	lifetime, end := context.WithCancel(context.Background())
	p := &Provider{end: end, expiry: expiry{skew: o.ClockSkew}, timeout: o.Timeout}
	p.caps = capabilitiesOf(p.expiry)
	if o.Retention != Forever {
		p.retention = o.Retention
	}
	p.connection = &connection{options: o, timeout: o.Timeout, wire: newWire(lifetime, o.ClientOptions.Transport)}
	return p
}

// client makes a client of azcosmos. It sends nothing.
func (o Options) client(w *wire) (*azcosmos.Client, error) {
	options := o.ClientOptions
	options.Transport = w
	options.Retry.MaxRetries = -1 // one attempt, but for what azcosmos has beneath
	options.EnableContentResponseOnWrite = false
	endpoint := strings.TrimSuffix(o.Endpoint, "/")
	if o.Credential != nil {
		return azcosmos.NewClient(endpoint, credential{o.Credential, w.lifetime}, &options)
	}
	key, err := azcosmos.NewKeyCredential(o.Key)
	if err != nil {
		return nil, &abstractions.InvalidError{Field: "Options.Key", Value: notShown, Want: "the account's key, which is in base64"}
	}
	return azcosmos.NewClientWithKey(endpoint, key, &options)
}
