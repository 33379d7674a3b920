package bloblease

import (
	"context"
	"errors"
	"net/url"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/blob"
	"github.com/Azure/azure-sdk-for-go/sdk/storage/azblob/container"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/auth"
)

// Open makes a provider. It calls Options.Secret but sends no request: the first use fails if the account
// can't be reached, the container is missing, or the identity lacks permissions. Invalid options are
// reported as leasing.ErrInvalid.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	at, err := options.complete()
	if err != nil {
		return nil, err
	}
	d, err := options.driver(ctx, at)
	if err != nil {
		return nil, err
	}
	return d.provider(options.Timeout), nil
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener returns the opener of URLs that begin with azblob:// or azblob+http://, for package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

var urlSchemes = []string{"azblob", "azblob+http"}

// maxBlobName is the longest name of a blob, without the prefix. The service's limit
// is 1024 characters.
const maxBlobName = 800

// driver makes the driver from completed options.
//
// A slash in a name becomes a colon. In an account with a hierarchical namespace, "jobs" would otherwise be
// both a file and a folder; in other accounts, a name with many slashes has more segments than the service allows
// (learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata).
func (o Options) driver(ctx context.Context, at endpoint) (*driver, error) {
	client, idle := o.client()
	c, err := o.container(ctx, at, client)
	s := &store{container: c, naming: cas.Naming{Prefix: o.Prefix, Slash: ':', Max: maxBlobName}, create: o.Create}
	return &driver{
		Records: cas.Records{Store: s, Leases: s, Key: s.naming.Encode, FloorKey: s.naming.Floor(), Retention: o.Retention, ManualSweep: true},
		store:   s, caps: capabilitiesOf(o), idle: idle,
	}, err
}

// client returns the library's options, and a function that closes their idle
// connections. Retries are off: a retry by the library could report the effect of its
// own first attempt as that of another caller.
func (o Options) client() (_ *container.ClientOptions, idle func()) {
	client := o.ClientOptions
	guarded := httpguard.Wrap(client.Transport)
	client.Transport, idle = answerChecker{guarded}, guarded.CloseIdleConnections
	client.Retry = policy.RetryOptions{MaxRetries: -1}
	return &container.ClientOptions{
		ClientOptions:          client,
		ExpectContinueBehavior: blob.ExpectContinueOptions{Mode: blob.ExpectContinueModeOff}, // requests have no bodies
	}, idle
}

// scope is the scope of the service's tokens in all clouds:
// learn.microsoft.com/azure/storage/blobs/authorize-access-azure-active-directory.
const scope = "https://storage.azure.com/.default"

// container makes the container's client with the identity of the options.
func (o Options) container(ctx context.Context, at endpoint, client *container.ClientOptions) (*container.Client, error) {
	address := at.service + "/" + o.Container
	switch {
	case o.ConnectionString != "":
		c, err := container.NewClientFromConnectionString(o.ConnectionString, o.Container, client)
		if err != nil { // the error may quote the string
			return nil, badConnectionString()
		}
		return c, nil
	case o.AccountKey != "":
		key, err := container.NewSharedKeyCredential(at.account, o.AccountKey)
		if err != nil {
			return nil, err
		}
		return container.NewClientWithSharedKeyCredential(address, key, client)
	case o.Secret != nil, o.SecretFile != "":
		return o.rotatingClient(ctx, at, address, client)
	case o.SAS != "":
		return container.NewClientWithNoCredential(address+"?"+o.SAS, client)
	}
	credential := o.Credential
	if credential == nil {
		var err error
		if credential, err = auth.New(o.Auth); err != nil {
			return nil, err
		}
	}
	return container.NewClient(address, auth.ForService(context.Background(), credential, scope), client)
}

// withoutURL returns the cause in an error from net/http, without the URL.
func withoutURL(err error) error {
	if quoting, ok := errors.AsType[*url.Error](err); ok {
		return quoting.Err
	}
	return err
}
