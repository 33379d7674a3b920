package cosmoslease

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/auth"
)

// Forever as a retention never forgets.
const Forever = abstractions.Infinite

// The defaults of Options.
const (
	DefaultPartitionKeyPath = "/id"
	DefaultRetention        = time.Hour
	DefaultTimeout          = 10 * time.Second
	DefaultClockSkew        = 2 * time.Second
)

// Options configure a provider. Exactly one of URL, ConnectionString and Endpoint
// says where the account is. A connection string has a key in it; with the others
// exactly one of Key, Auth and Credential, or what the URL says, is how to get in.
//
// In JSON, and as the query of a URL, the fields have the names in their tags,
// and durations are written as in Go ("90m") or "forever". Printing options,
// logging them, and writing them as JSON shows neither URL nor connection string
// nor key.
type Options struct {
	// URL is one of
	//
	//	cosmos://account.documents.azure.com/database/container?auth=ManagedIdentity
	//	cosmos://:key@account.documents.azure.com/database/container
	//	cosmos+http://:key@127.0.0.1:8081/database/container
	//
	// the last only for an address of this machine. In a key / is written as %2F,
	// + as %2B, = as %3D. The query may set the fields below that have a tag, but
	// for secrets, and auth, which is an auth.Mode; what that mode needs then comes
	// from the environment.
	URL string `json:"url"`
	// ConnectionString is what the portal shows: AccountEndpoint=...;AccountKey=...;
	ConnectionString string `json:"connection_string"`
	// Endpoint is the account's address: https://account.documents.azure.com.
	Endpoint string `json:"endpoint"`

	// Key is the account's primary or secondary key.
	Key string `json:"key"`
	// Auth is how to get tokens from Microsoft Entra ID: see RoleDefinition.
	Auth auth.Options `json:"auth"`
	// Credential is a credential of your own. It has to heed its context: a request
	// for a token may take 10 seconds, and ends when the provider is closed.
	Credential azcore.TokenCredential `json:"-"`

	// Database and Container are required, here or in the URL.
	Database  string `json:"database"`
	Container string `json:"container"`
	// PartitionKeyPath is the container's. An existing container's is read, and
	// has to be this one if it is set, and of version 2. Default, for one that is
	// created, DefaultPartitionKeyPath. Documents have their ID for a partition key.
	PartitionKeyPath string `json:"partition_key_path"`
	// Create creates database and container where there are none, when they are
	// first needed. It takes the account's key: no token has the right to.
	Create bool `json:"create"`
	// Throughput is for a container that is created, in request units per second;
	// 0 leaves it to a serverless account, or to the database. With Autoscale it
	// is the most.
	Throughput int  `json:"throughput"`
	Autoscale  bool `json:"autoscale"`

	// Prefix begins the IDs of all documents, before a colon. Those who are to
	// exclude each other use the same. At most 50 bytes of UTF-8 without control
	// characters. Default: none.
	Prefix string `json:"prefix"`
	// Retention is how long a name is remembered after its last lease has ended:
	// see Provider.Sweep. A request that was delayed for longer may land after its
	// own clean-up. At least a minute. Default DefaultRetention; Forever never
	// forgets.
	Retention time.Duration `json:"retention"`
	// ExpireDocuments has the service delete documents by itself, after Retention,
	// in place of Sweep. It takes a container with a time to live (--ttl -1), and
	// never decides who holds a name. By default documents are marked as never to
	// be deleted, whatever the container's time to live is.
	//
	// The service does not say whether a document whose time is over, and which it
	// has not got round to deleting, is in the way of a new one with its ID. While
	// it is, acquires of that name fail as leasing.ErrUnavailable.
	ExpireDocuments bool `json:"expire_documents"`
	// Timeout bounds a request whose context has no deadline. Default DefaultTimeout.
	Timeout time.Duration `json:"timeout"`

	// ClockSkew is by how much the service's clocks may disagree, that of a
	// gateway and that of a replica, which may be in another region. A lease that
	// is not renewed blocks its name for that much longer. Default DefaultClockSkew.
	ClockSkew time.Duration `json:"clock_skew"`
	// Consistency of reads: Session on an account whose own is Strong or
	// BoundedStaleness halves what reads cost. Default: the account's own. Writes
	// are conditional, so it decides nothing about who holds a name.
	Consistency string `json:"consistency"`
	// AllowMultipleWriteRegions accepts an account that takes writes in several
	// regions. There two clients may both be told that they hold a name, unless all
	// of them write to the same region.
	AllowMultipleWriteRegions bool `json:"allow_multiple_write_regions"`
	// ClientOptions are azcosmos' own: transport, logging, preferred regions.
	// Retries are off: package leasing has its own.
	ClientOptions azcosmos.ClientOptions `json:"-"`
}

// notShown stands for what may hold a secret.
const notShown = "(not shown)"

// String shows what is no secret.
func (o Options) String() string {
	source, err := o.source()
	if err != nil {
		source = "no source"
	}
	if source == "Endpoint" {
		source += ": " + hostOf(o.Endpoint)
	}
	return fmt.Sprintf("cosmoslease.Options{%s, Database: %q, Container: %q, Prefix: %q, Retention: %v}", source, o.Database, o.Container, o.Prefix, o.Retention)
}

// GoString is String.
func (o Options) GoString() string { return o.String() }

// LogValue is String.
func (o Options) LogValue() slog.Value { return slog.StringValue(o.String()) }

// MarshalJSON is String: options that hold secrets are not for writing down.
func (o Options) MarshalJSON() ([]byte, error) { return json.Marshal(o.String()) }

// UnmarshalJSON reads options. Fields it doesn't know are an error, and so are
// durations that are not written as text.
func (o *Options) UnmarshalJSON(data []byte) error {
	type fields Options // without this method
	fieldsOf := struct {
		*fields
		Retention *duration `json:"retention"`
		Timeout   *duration `json:"timeout"`
		ClockSkew *duration `json:"clock_skew"`
	}{(*fields)(o), (*duration)(&o.Retention), (*duration)(&o.Timeout), (*duration)(&o.ClockSkew)}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&fieldsOf)
	if named := (*abstractions.InvalidError)(nil); errors.As(err, &named) {
		return named // package auth's: it shows no secret
	}
	if err != nil {
		// The error names a field or an offset, never a value of another field.
		return &abstractions.InvalidError{Field: "Options", Value: notShown, Want: "the JSON of cosmoslease.Options: " + err.Error()}
	}
	return nil
}

// duration is a time.Duration as text.
type duration time.Duration

func (d *duration) UnmarshalText(text []byte) error {
	if string(text) == "forever" {
		*d = duration(Forever)
		return nil
	}
	parsed, err := time.ParseDuration(string(text))
	*d = duration(parsed)
	return err
}

// source returns the field that says where the account is.
func (o Options) source() (string, error) {
	return one("URL, ConnectionString and Endpoint", []field{
		{"URL", o.URL != ""}, {"ConnectionString", o.ConnectionString != ""}, {"Endpoint", o.Endpoint != ""},
	})
}

// access returns the field that says how to get in.
func (o Options) access() (string, error) {
	return one("Key, Auth and Credential", []field{
		{"Key", o.Key != ""}, {"Auth", !o.Auth.IsZero()}, {"Credential", o.Credential != nil},
	})
}

// field is one of several of which one is to be set.
type field struct {
	name string
	set  bool
}

func one(of string, fields []field) (string, error) {
	var given []string
	for _, f := range fields {
		if f.set {
			given = append(given, f.name)
		}
	}
	if len(given) == 1 {
		return given[0], nil
	}
	value := "with none"
	if len(given) > 0 {
		value = "with " + strings.Join(given, " and ")
	}
	return "", &abstractions.InvalidError{Field: "Options", Value: value, Want: "exactly one of " + of}
}
