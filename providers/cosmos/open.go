package cosmoslease

import (
	"context"
	"net/url"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/auth"
)

// RoleDefinition lists the data actions of a sufficient role, one per line.
// Options.Create needs more: the account's key. Without executeQuery, List and Sweep
// return leasing.ErrDenied; without delete, Sweep returns the same error. The built-in
// role Cosmos DB Built-in Data Contributor has all these actions, and more:
// learn.microsoft.com/azure/cosmos-db/nosql/reference-data-plane-actions.
const RoleDefinition = `Microsoft.DocumentDB/databaseAccounts/readMetadata
Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/read
Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/create
Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/replace
Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/items/delete
Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/executeQuery`

// Open returns a provider. It makes no request: the first use fails if the account can't be
// reached, denies the request, or lacks the container. Invalid options are reported as
// leasing.ErrInvalid.
//
// The first call also reads the account and the container: two more requests. The
// identity needs only the permissions in RoleDefinition.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	source, err := providerkit.ExactlyOne(options, "URL", "ConnectionString", "Endpoint")
	if err == nil && source == "URL" {
		err = options.readURL()
	}
	if err == nil && source == "ConnectionString" {
		err = options.readConnectionString()
	}
	if err != nil {
		return nil, err
	}
	access, err := providerkit.ExactlyOne(options, "Key", "Secret", "SecretFile", "Auth", "Credential")
	if err == nil {
		err = options.complete()
	}
	if err == nil && access == "Auth" {
		err = options.authenticate()
	}
	if err != nil {
		return nil, err
	}
	keys, err := options.keys()
	if err != nil {
		return nil, err
	}
	return newProvider(options, keys), nil
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener returns the opener of URLs that begin with cosmos:// or cosmos+http://, for package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

var urlSchemes = []string{"cosmos", "cosmos+http"}

// schemes maps the schemes of URLs to those of endpoints.
var schemes = map[string]string{"cosmos": "https", "cosmos+http": "http"}

// readURL sets the fields that Options.URL contains.
func (o *Options) readURL() error {
	u, _, err := providerkit.ReadURL(o, o.URL, urlSchemes...)
	if err != nil {
		return err
	}
	key := u.Password.Reveal()
	if u.User != "" || key != "" && o.Key != "" {
		return providerkit.BadURL(":key@ before the host, and none where Options.Key is set")
	}
	o.URL, o.Endpoint, o.Key = "", schemes[u.Scheme]+"://"+u.Host, o.Key+key
	if u.Path == "" || u.Path == "/" {
		return nil
	}
	database, container, _ := strings.Cut(strings.Trim(u.Path, "/"), "/")
	several := strings.Contains(container, "/")
	database, err = url.PathUnescape(database)
	container, err2 := url.PathUnescape(container)
	if err != nil || err2 != nil || several || container == "" || o.Database != "" || o.Container != "" {
		return providerkit.BadURL("host/database/container, where Options.Database and Options.Container are not set")
	}
	o.Database, o.Container = database, container
	return nil
}

// readConnectionString sets the fields that the connection string contains. The parser of
// azcosmos needs the parts in a fixed order, and panics without a key.
func (o *Options) readConnectionString() error {
	if o.Key != "" || o.Secret != nil || o.SecretFile != "" || !o.Auth.IsZero() || o.Credential != nil {
		return providerkit.BadOption("ConnectionString", providerkit.NotShown, "no Key, Secret, SecretFile, Auth and Credential, since the connection string has a key")
	}
	for part := range strings.SplitSeq(o.ConnectionString, ";") {
		switch name, value, _ := strings.Cut(strings.TrimSpace(part), "="); {
		case strings.EqualFold(name, "AccountEndpoint"):
			o.Endpoint = value
		case strings.EqualFold(name, "AccountKey"):
			o.Key = value
		}
	}
	if o.Endpoint == "" || o.Key == "" {
		return providerkit.BadOption("ConnectionString", providerkit.NotShown, "AccountEndpoint=https://...;AccountKey=...;")
	}
	o.ConnectionString = ""
	return nil
}

// authenticate makes a credential from Options.Auth. It sends nothing.
func (o *Options) authenticate() (err error) {
	if o.Credential, err = auth.New(o.Auth); err == nil && o.ClientOptions.Cloud.ActiveDirectoryAuthorityHost == "" {
		o.ClientOptions.Cloud, err = o.Auth.CloudConfiguration()
	}
	return err
}

// client makes an azcosmos client with a key, or with Options.Credential. It sends nothing.
func (o *Options) client(w *wire, key string) (*azcosmos.Client, error) {
	options := o.ClientOptions
	options.Transport = w
	options.Retry.MaxRetries = -1 // one attempt, apart from the inner retries of azcosmos
	options.EnableContentResponseOnWrite = false
	endpoint := strings.TrimSuffix(o.Endpoint, "/")
	if o.Credential != nil {
		return azcosmos.NewClient(endpoint, auth.ForService(w.lifetime, o.Credential, ""), &options)
	}
	signer, err := azcosmos.NewKeyCredential(key)
	if err != nil {
		return nil, abstractions.ErrInvalid // complete has checked the key
	}
	return azcosmos.NewClientWithKey(endpoint, signer, &options)
}
