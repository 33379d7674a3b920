package bloblease

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/auth"
)

// Options configure a provider. Exactly one of URL, AccountURL and ConnectionString names the storage
// account. AccountURL requires exactly one of Auth, Credential, AccountKey, SAS, Secret and SecretFile
// for authentication. A connection string and a URL contain their own credentials.
//
// In JSON, and as the query of a URL, the fields have the names in their tags,
// and durations are written as in Go ("90m") or "forever". Printing options,
// logging them, and writing them as JSON show no secret.
type Options struct {
	// URL is one of
	//
	//	azblob://account/container?auth=ManagedIdentity
	//	azblob://account.blob.core.windows.net/container?auth=Auto
	//	azblob://account:key@account.blob.core.windows.net/container
	//	azblob://account/container?sv=...&sig=...
	//	azblob:///container?connection_string_env=AZURE_STORAGE_CONNECTION_STRING
	//	azblob+http://devstoreaccount1:key@127.0.0.1:10000/devstoreaccount1/container
	//
	// A host without a dot is the name of an account in Azure's public cloud. The
	// scheme azblob means https. In a key, write %2F for /, %2B for + and %3D for =.
	//
	// The query may set SecretFile, Create and the fields after Create. It may also contain auth, which is a mode
	// of package auth, or "Environment" for auth.FromEnvironment; the parameters of a SAS; or
	// connection_string_env, the name of a variable that contains a connection string. The
	// settings that the mode needs come from the environment.
	URL string `json:"url" option:"secret"`

	// AccountURL is the account, https://account.blob.core.windows.net, or one of its
	// containers, with a slash and the container's name appended. The query may be a
	// SAS.
	AccountURL string `json:"account_url" option:"secret"`
	// Auth configures how to get tokens from Microsoft Entra ID.
	Auth auth.Options `json:"auth"`
	// Credential is a token source of your own.
	Credential azcore.TokenCredential `json:"-"`
	// AccountKey is one of the account's two keys, in base64.
	AccountKey string `json:"account_key" option:"secret"`
	// SAS is a shared access signature of the account or the container: the query
	// of its URL, "sv=...&sig=...". It must permit read, write, create and list, and for Sweep also
	// delete.
	SAS string `json:"sas" option:"secret"`
	// Secret returns an account key or a SAS, which may change. Open calls it, and so does each request, from
	// several goroutines at a time, so it should cache the secret. The first answer decides which of the two
	// kinds is used. An error counts as a failure of the credentials, and the request is not sent.
	Secret func(ctx context.Context) (string, error) `json:"-"`
	// SecretFile is the path of a file with an account key or a SAS. Each request uses the newest valid contents of the file.
	SecretFile string `json:"secret_file"`
	// ConnectionString is the account's connection string, as the portal shows it, with
	// a key or a SAS.
	ConnectionString string `json:"connection_string" option:"secret"`

	// Container is the container of the blobs, preferably one for leases only.
	// Required, unless URL or AccountURL names the container.
	Container string `json:"container"`
	// Create lets the first acquire create the container if it is missing.
	Create bool `json:"create"`
	// Prefix is the beginning of all blob names: "leases/" makes a folder. Processes that exclude
	// each other must use the same prefix. Up to 200 letters, digits, and any of "-_./", without a
	// leading slash. Default empty.
	Prefix string `json:"prefix" option:"maxlen=200"`
	// Retention is the time for which Sweep keeps free names after their last write. At
	// least 1 min. Default 1 h; with leasing.Infinite, "forever", Sweep does nothing.
	Retention time.Duration `json:"retention" option:"retention,min=1m"`
	// Timeout bounds a request whose context has no deadline. Default 10 s.
	Timeout time.Duration `json:"timeout" option:"timeout"`
	// Infinite permits infinite leases. If the holder of an infinite lease dies without
	// releasing it, the name is blocked until an operator breaks the lease.
	Infinite bool `json:"infinite"`

	// ClientOptions are for requests to the service: transport, logging, tracing,
	// policies. Retry must not be set: the client makes each request once, and package
	// leasing retries.
	ClientOptions azcore.ClientOptions `json:"-"`
}

// Format prints the options without their secrets, for all verbs.
func (o Options) Format(f fmt.State, _ rune) { providerkit.Format(f, o) }

// MarshalJSON returns the text of Format as a JSON string: options with secrets can't be saved as JSON.
func (o Options) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(o) }

// UnmarshalJSON reads options. It refuses unknown fields, and durations that are not
// written as text.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }

// complete validates the options, and sets the defaults and the fields of the URL.
func (o *Options) complete() (at endpoint, err error) {
	source, err := providerkit.ExactlyOne(o, "URL", "AccountURL", "ConnectionString")
	if err == nil && source == "URL" {
		err = o.readURL()
	}
	if err == nil && o.AccountURL != "" {
		at, err = o.readAccountURL()
	} else if err == nil {
		err = o.validateConnectionString()
	}
	if err == nil {
		err = providerkit.Complete(o)
	}
	if err == nil {
		err = o.validate()
	}
	return at, err
}

var (
	// containerName is the form of a container's name
	// (learn.microsoft.com/rest/api/storageservices/naming-and-referencing-containers--blobs--and-metadata).
	containerName = regexp.MustCompile(`^[a-z0-9](-?[a-z0-9]){2,62}$`)
	// prefixName excludes the characters that cas.Naming escapes, and prefixes
	// with an empty or a hidden folder.
	prefixName = regexp.MustCompile(`^([A-Za-z0-9_-][A-Za-z0-9_.-]*/)*([A-Za-z0-9_-][A-Za-z0-9_.-]*)?$`)
)

// validate checks the rules that the tags do not state.
func (o *Options) validate() error {
	switch {
	case len(o.Container) > 63 || !containerName.MatchString(o.Container):
		return providerkit.BadOption("Container", o.Container, "3 to 63 lower-case letters and digits, with single hyphens in between")
	case !prefixName.MatchString(o.Prefix) || strings.Contains(o.Prefix, "./"):
		return providerkit.BadOption("Prefix", o.Prefix, `letters, digits and "-_./", a letter or digit before each slash, such as "leases/"`)
	case !reflect.ValueOf(o.ClientOptions.Retry).IsZero():
		return providerkit.BadOption("ClientOptions.Retry", providerkit.NotShown, "no value: a request is sent once, and package leasing retries")
	}
	return nil
}

// identities are the fields that set an identity.
var identities = []string{"Auth", "Credential", "AccountKey", "SAS", "Secret", "SecretFile"}

func (o *Options) hasIdentity() bool {
	return !o.Auth.IsZero() || o.Credential != nil || o.AccountKey != "" || o.SAS != "" || o.Secret != nil || o.SecretFile != ""
}

// validateIdentity checks the identity for the account at an address.
func (o *Options) validateIdentity(service string) error {
	identity, err := providerkit.ExactlyOne(o, identities...)
	switch {
	case err != nil:
		return err
	case identity == "AccountKey" && !isKey(o.AccountKey):
		return providerkit.BadOption("AccountKey", providerkit.NotShown, "one of the account's keys, in base64")
	case identity == "SAS" && !isSAS(o.SAS):
		return providerkit.BadOption("SAS", providerkit.NotShown, `a shared access signature: "sv=...&sig=..."`)
	case slices.Contains(identities[2:], identity):
		return nil
	case !strings.HasPrefix(service, "https:") && !o.ClientOptions.InsecureAllowCredentialWithHTTP:
		return badAccountURL("https: tokens are not sent over http")
	case identity == "Auth":
		return o.Auth.Validate()
	}
	return nil
}

func isKey(text string) bool {
	key, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(key) > 0
}

// isSAS checks for the parameters that every SAS has (learn.microsoft.com/rest/api/storageservices/create-account-sas).
func isSAS(text string) bool {
	query, err := url.ParseQuery(text)
	return err == nil && query.Get("sv") != "" && query.Get("sig") != ""
}

// validateConnectionString checks the syntax of the connection string, since the client
// library's errors may quote the string, and leaves the rest to the library.
func (o *Options) validateConnectionString() error {
	if o.hasIdentity() {
		return providerkit.BadOption("ConnectionString", providerkit.NotShown, "no "+strings.Join(identities, ", ")+", since it has the credentials")
	}
	for part := range strings.SplitSeq(strings.TrimRight(o.ConnectionString, "; \n"), ";") {
		if name, _, found := strings.Cut(part, "="); !found || name == "" {
			return badConnectionString()
		}
	}
	return nil
}

func badConnectionString() error {
	return providerkit.BadOption("ConnectionString", providerkit.NotShown, "AccountName=...;AccountKey=..., or BlobEndpoint=...;SharedAccessSignature=..., as in the portal")
}
