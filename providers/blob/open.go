package bloblease

import (
	"context"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/distributedleasing/leasing/auth"
)

// Open makes a provider. It makes no request: an account that can't be reached, a
// container that is not there, or an identity without rights shows at the first
// use. Options that can't work are reported as leasing.ErrInvalid.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	source, err := options.source()
	if err != nil {
		return nil, err
	}
	if source == "URL" {
		if options, err = options.withURL(); err != nil {
			return nil, err
		}
	}
	options, at, err := options.complete()
	if err != nil {
		return nil, err
	}
	client, idle := options.client()
	c, err := options.open(at, client)
	if err != nil {
		return nil, err
	}
	lifetime, end := context.WithCancel(context.Background())
	return &Provider{
		lifetime: lifetime, end: end,
		store: store{container: c, naming: naming{prefix: options.Prefix}},
		caps:  capabilitiesOf(options), timeout: options.Timeout, retention: options.Retention,
		createContainer: options.CreateContainer, idle: idle,
	}, nil
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// client returns the library's options, and what closes their idle connections.
// The library would retry by itself, and then report what its own first attempt
// had done as somebody else's.
func (o Options) client() (*container.ClientOptions, func()) {
	client, idle := o.ClientOptions, func() {}
	if client.Transport == nil {
		transport := newTransport()
		client.Transport, idle = roundTripper{transport}, transport.CloseIdleConnections
	}
	client.Transport = discreet{client.Transport}
	client.Retry = policy.RetryOptions{MaxRetries: -1}
	return &container.ClientOptions{
		ClientOptions:          client,
		ExpectContinueBehavior: blob.ExpectContinueOptions{Mode: blob.ExpectContinueModeOff}, // there are no bodies
	}, idle
}

// open makes the container's client with the one identity that there is.
func (o Options) open(at endpoint, client *container.ClientOptions) (*container.Client, error) {
	address := at.service() + "/" + o.Container
	switch {
	case o.ConnectionString != "":
		c, err := container.NewClientFromConnectionString(o.ConnectionString, o.Container, client)
		if err != nil { // which may quote it
			return nil, badConnectionString()
		}
		return c, nil
	case o.AccountKey != "":
		key, err := container.NewSharedKeyCredential(at.account, o.AccountKey)
		if err != nil {
			return nil, err
		}
		return container.NewClientWithSharedKeyCredential(address, key, client)
	case o.SAS != "":
		return container.NewClientWithNoCredential(address+"?"+o.SAS, client)
	}
	credential, err := o.credential()
	if err != nil {
		return nil, err
	}
	return container.NewClient(address, patient{credential}, client)
}

func (o Options) credential() (azcore.TokenCredential, error) {
	if o.Credential != nil {
		return o.Credential, nil
	}
	return auth.New(o.Auth)
}
