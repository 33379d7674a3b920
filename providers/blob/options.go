package bloblease

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/distributedleasing/leasing/auth"

	"github.com/distributedleasing/leasing/abstractions"
)

// Forever as a retention never forgets.
const Forever = abstractions.Infinite

// The defaults of Options.
const (
	DefaultRetention = 24 * time.Hour
	DefaultTimeout   = 10 * time.Second
)

// Options configure a provider. Exactly one of URL, AccountURL and ConnectionString
// says where the storage account is. With AccountURL exactly one of Auth,
// Credential, AccountKey and SAS says who we are; a connection string says so
// itself, and a URL as it is documented there.
//
// In JSON, and as the query of a URL, the fields have the names in their tags,
// and durations are written as in Go ("90m") or "forever". Printing options,
// logging them, and writing them as JSON shows no secret.
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
	// A host without a dot is the name of an account in the cloud that the
	// parameter cloud names (AzurePublic, AzureGovernment or AzureChina), or in
	// AzurePublic. The scheme azblob means https. A key's characters with a meaning
	// in URLs are written as %2F for /, %2B for + and %3D for =.
	//
	// The query may set the fields below that are no secrets and have a tag in
	// lower case; auth, a mode of package auth or "Environment", which reads the
	// variables that auth.FromEnvironment does; client_id, tenant_id,
	// token_file_path and certificate_path for that mode; the parameters of a SAS;
	// or connection_string_env, the variable with a connection string.
	URL string `json:"url"`

	// AccountURL is the account, https://account.blob.core.windows.net, or one of
	// its containers, with a slash and the container's name behind it. The query
	// may be a SAS.
	AccountURL string `json:"account_url"`
	// Auth is a way to get tokens from Microsoft Entra ID.
	Auth auth.Options `json:"auth"`
	// Credential is a source of tokens of your own.
	Credential azcore.TokenCredential `json:"-"`
	// AccountKey is one of the account's two keys, in base64.
	AccountKey string `json:"account_key"`
	// SAS is a shared access signature of the account or the container: the query
	// of its URL, "sv=...&sig=...". It has to permit read, write, create and list,
	// and delete for Sweep.
	SAS string `json:"sas"`
	// ConnectionString is the account's, as the portal shows it, with a key or a SAS.
	ConnectionString string `json:"connection_string"`

	// Container is where the blobs are: best one for leases alone. Required, unless
	// a URL names it.
	Container string `json:"container"`
	// CreateContainer creates the container when it is first needed and not there.
	CreateContainer bool `json:"create_container"`
	// Prefix begins the names of all blobs: "leases/" makes a folder. Those who are
	// to exclude each other use the same. Up to 200 letters, digits, and any of
	// "-_./", no slash first. Default none.
	Prefix string `json:"prefix"`
	// Retention is how long Sweep leaves names that nobody has. At least a minute.
	// Default DefaultRetention; with Forever Sweep does nothing.
	Retention time.Duration `json:"retention"`
	// Timeout bounds a request whose context has no deadline. Default DefaultTimeout.
	Timeout time.Duration `json:"timeout"`
	// Infinite permits leases without an end. One whose holder dies without having
	// released it blocks its name until an operator breaks it.
	Infinite bool `json:"infinite"`

	// ClientOptions are for requests to the service: transport, logging, tracing,
	// policies. Retry must not be set: a request is made once, and package leasing
	// tries again.
	ClientOptions azcore.ClientOptions `json:"-"`
}

// notShown stands for what may hold a secret.
const notShown = "(not shown)"

// String shows what is no secret.
func (o Options) String() string {
	source, err := o.source()
	if err != nil {
		source = "no source"
	}
	if e, err := o.endpoint(); err == nil && source != "URL" {
		source += " " + e.shown()
	}
	return fmt.Sprintf("bloblease.Options{%s, %s, Container: %q, Prefix: %q, Retention: %v}", source, o.identity(), o.Container, o.Prefix, o.Retention)
}

// identity names the way we say who we are.
func (o Options) identity() string {
	if given := o.identities(); len(given) > 0 {
		return strings.Join(given, " and ")
	}
	return "no identity"
}

func (o Options) identities() []string {
	var given []string
	for _, i := range []struct {
		field string
		set   bool
	}{
		{"Auth " + string(o.Auth.Mode), !o.Auth.IsZero()}, {"Credential", o.Credential != nil},
		{"AccountKey", o.AccountKey != ""}, {"SAS", o.SAS != ""},
	} {
		if i.set {
			given = append(given, i.field)
		}
	}
	return given
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
	type plain Options // without this method
	fields := struct {
		*plain
		Retention *duration `json:"retention"`
		Timeout   *duration `json:"timeout"`
	}{(*plain)(o), (*duration)(&o.Retention), (*duration)(&o.Timeout)}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&fields)
	if named := (*abstractions.InvalidError)(nil); errors.As(err, &named) {
		return named
	}
	if err != nil {
		// The error names a field or an offset, never a value of another field.
		return &abstractions.InvalidError{Field: "Options", Value: notShown, Want: "the JSON of bloblease.Options: " + err.Error()}
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
	var given []string
	for _, s := range []struct {
		field string
		set   bool
	}{{"URL", o.URL != ""}, {"AccountURL", o.AccountURL != ""}, {"ConnectionString", o.ConnectionString != ""}} {
		if s.set {
			given = append(given, s.field)
		}
	}
	if len(given) == 1 {
		return given[0], nil
	}
	value := "with none"
	if len(given) > 0 {
		value = "with " + strings.Join(given, " and ")
	}
	return "", &abstractions.InvalidError{Field: "Options", Value: value, Want: "exactly one of URL, AccountURL and ConnectionString"}
}
