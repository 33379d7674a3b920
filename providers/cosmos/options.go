package cosmoslease

import (
	"context"
	"encoding/base64"
	"fmt"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
	"github.com/distributedleasing/leasing/auth"
)

// DefaultPartitionKeyPath is the partition key path of a new container.
const DefaultPartitionKeyPath = "/id"

// Options configure a provider. Exactly one of URL, ConnectionString and Endpoint names the
// account. A connection string contains a key. With a URL or an Endpoint, authenticate in exactly
// one way: by Key, Secret, SecretFile, Auth or Credential, or by the parts of the URL.
//
// In JSON, and as the query of a URL, the fields have the names in their tags,
// and durations are written as in Go ("90m") or "forever". Printing options,
// logging them, and writing them as JSON show no secret.
type Options struct {
	// URL is one of
	//
	//	cosmos://account.documents.azure.com/database/container?auth=ManagedIdentity
	//	cosmos://:key@account.documents.azure.com/database/container
	//	cosmos+http://:key@127.0.0.1:8081/database/container
	//
	// The last form is only for an address of the local machine. In a key, write %2F for
	// /, %2B for + and %3D for =. The query may set the fields below that have a tag,
	// except secrets. auth is a mode of package auth, or "Environment" for
	// auth.FromEnvironment; the settings of the mode come from the environment.
	URL string `json:"url" option:"secret"`
	// ConnectionString is the string from the portal:
	// AccountEndpoint=...;AccountKey=...;
	ConnectionString string `json:"connection_string" option:"secret"`
	// Endpoint is the account's address: https://account.documents.azure.com. It is
	// never printed, because some users put a key in the address.
	Endpoint string `json:"endpoint" option:"secret"`

	// Key is the account's primary or secondary key.
	Key string `json:"key" option:"secret"`
	// Secret returns a key of the account, which may change. Each request of a lease calls it, from several
	// goroutines at a time, so it should cache the key. An error counts as a failure of the credentials, and the
	// request is not sent. A new key costs two requests.
	Secret func(ctx context.Context) (string, error) `json:"-"`
	// SecretFile is the path of a file with a key of the account. Each request uses the newest valid contents of the file.
	SecretFile string `json:"secret_file"`
	// Auth configures how to get tokens from Microsoft Entra ID: see RoleDefinition.
	Auth auth.Options `json:"auth"`
	// Credential is your own credential. It must obey its context: a request for a
	// token is canceled after 10 s, and when the provider closes.
	Credential azcore.TokenCredential `json:"-"`

	// Database and Container are required, here or in the URL.
	Database  string `json:"database"`
	Container string `json:"container"`
	// PartitionKeyPath is the partition key path of the container. An existing container must have
	// this path, if set, and partition keys of version 2. The default for a new container is
	// DefaultPartitionKeyPath. A document's ID is its partition key.
	PartitionKeyPath string `json:"partition_key_path"`
	// Create creates a missing database or container at the first use. It needs the
	// account's key: a token can't have that permission.
	Create bool `json:"create"`
	// Throughput is the throughput of a new container, in request units per second; 0
	// is for a serverless account, or for a database whose containers share its
	// throughput. With Autoscale, Throughput is the maximum.
	Throughput int  `json:"throughput" option:"min=400,max=1000000"`
	Autoscale  bool `json:"autoscale"`

	// Prefix begins the IDs of all documents, before a colon. Processes that exclude
	// each other use the same prefix. At most 50 bytes of UTF-8 without control
	// characters. Default empty.
	Prefix string `json:"prefix" option:"maxlen=50"`
	// Retention is the time for which a name is remembered after its last lease has
	// ended: see Provider.Sweep. A request that is delayed for longer may take effect after
	// its own clean-up. At least a minute, which is far longer than the difference of the
	// service's clocks. Default an hour; with leasing.Infinite, "forever", no name is forgotten.
	Retention time.Duration `json:"retention" option:"retention,min=1m"`
	// ExpireDocuments lets the service delete documents after Retention, instead of
	// Sweep. It needs a container with a time to live (--ttl -1). It never affects
	// the holder of a name. By default documents never expire, whatever the container's
	// time to live.
	//
	// The service does not document whether an expired document that is not yet deleted
	// prevents a new document with the same ID. If so, acquires of that name fail with
	// leasing.ErrUnavailable until the document is deleted.
	ExpireDocuments bool `json:"expire_documents"`
	// Timeout bounds a request whose context has no deadline. Default 10 s.
	Timeout time.Duration `json:"timeout" option:"timeout"`

	// ClockSkew bounds the difference between the clocks of the service's gateways
	// and replicas, which may be in different regions. A lease that is not renewed
	// blocks its name for that much longer. Default 2 s, at most 1 min.
	ClockSkew time.Duration `json:"clock_skew" option:"default=2s,min=1ms,max=1m"`
	// Consistency is the level of reads: Session on an account with Strong or
	// BoundedStaleness halves the price of reads. Default: the account's own level.
	// Writes are conditional, so the level never decides the holder of a name.
	Consistency string `json:"consistency" option:"oneof=Session|BoundedStaleness|Strong"`
	// AllowMultipleWriteRegions permits an account that accepts writes in several
	// regions. Then two clients may both be granted a name, unless all clients write to
	// the same region.
	AllowMultipleWriteRegions bool `json:"allow_multiple_write_regions"`
	// ClientOptions are the options of azcosmos, such as transport, logging and preferred
	// regions. Retries are off: package leasing retries.
	ClientOptions azcosmos.ClientOptions `json:"-"`
}

// Format prints the options without their secrets.
func (o Options) Format(f fmt.State, _ rune) { providerkit.Format(f, o) }

// MarshalJSON returns the text of Format as a JSON string: options with secrets can't be saved as JSON.
func (o Options) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(o) }

// UnmarshalJSON reads options.
func (o *Options) UnmarshalJSON(data []byte) error { return providerkit.UnmarshalJSON(data, o) }

// maxResourceBytes is the service's limit for names of databases and containers:
// learn.microsoft.com/azure/cosmos-db/concepts-limits.
const maxResourceBytes = 255

// complete sets the defaults and checks the options. It refuses to send a key's
// signature or a token in the clear over a network, and refuses options that apply only
// to a new container if Create is not set.
func (o *Options) complete() error {
	if err := providerkit.Complete(o); err != nil {
		return err
	}
	for _, n := range []struct{ field, value string }{{"Database", o.Database}, {"Container", o.Container}} {
		odd := strings.ContainsAny(n.value, `/\?#%"`) || strings.TrimSpace(n.value) != n.value || abstractions.ValidateName(n.value) != nil
		if odd || len(n.value) > maxResourceBytes {
			return providerkit.BadOption(n.field, n.value, fmt.Sprintf(`1 to %d bytes, without / \ ? # %% " and without leading or trailing space`, maxResourceBytes))
		}
	}
	_, badPath := parsePath(o.path())
	u, err := url.Parse(o.Endpoint)
	switch {
	case err != nil || u.Hostname() == "" || u.User != nil || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.Fragment != "":
		return providerkit.BadOption("Endpoint", providerkit.NotShown, "https://host or https://host:port, without path, user or password")
	case u.Scheme != "https" && (u.Scheme != "http" || !isLocal(u.Hostname())):
		return providerkit.BadOption("Endpoint", providerkit.NotShown, "https://; http:// is only for 127.0.0.1, ::1 and localhost")
	case o.Key != "" && !isKey(o.Key):
		return providerkit.BadOption("Key", providerkit.NotShown, wantKey)
	case o.Prefix != "" && abstractions.ValidateName(o.Prefix) != nil:
		return providerkit.BadOption("Prefix", o.Prefix, "UTF-8 without control characters")
	case badPath != "":
		return providerkit.BadOption("PartitionKeyPath", o.PartitionKeyPath, "a path such as /id or /pk, but not "+badPath)
	case o.Throughput != 0 && !o.Create:
		return providerkit.BadOption("Throughput", o.Throughput, "0, or Create as well")
	case o.Autoscale && o.Throughput == 0:
		return providerkit.BadOption("Autoscale", true, "Throughput as well")
	case o.ExpireDocuments && o.Retention == abstractions.Infinite:
		return providerkit.BadOption("ExpireDocuments", true, "false, or a Retention that ends")
	}
	return nil
}

const wantKey = "the account's key, which is in base64"

func isKey(text string) bool {
	key, err := base64.StdEncoding.DecodeString(text)
	return err == nil && len(key) > 0
}

// keys returns the source of the key for each request. The key is "" if another identity is used.
func (o *Options) keys() (livefile.Source, error) {
	if o.Secret == nil && o.SecretFile == "" {
		key := o.Key
		return func(context.Context) (string, error) { return key, nil }, nil
	}
	return livefile.NewSource(o.Secret, o.SecretFile, func(text string) error {
		if !isKey(text) {
			return providerkit.BadOption("Secret", providerkit.NotShown, wantKey)
		}
		return nil
	})
}

// isLocal reports whether a host is the local machine.
func isLocal(host string) bool {
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}
