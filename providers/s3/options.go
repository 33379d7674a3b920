package s3lease

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Options configure a provider. Bucket is required, here or in the URL.
//
// In JSON, and as the query of a URL, the fields have the names in their tags. Options
// show no secret when they are printed, logged or written as JSON.
type Options struct {
	// URL is one of
	//
	//	s3://bucket/prefix?region=eu-central-1
	//	s3://access-key:secret-key@bucket/prefix?endpoint=https://host&path_style=true
	//
	// In a secret key, write %2F for / and %2B for +. The query may set the fields
	// below that have a tag, except secrets.
	URL string `json:"url" option:"secret"`

	// Bucket is the name of the bucket.
	Bucket string `json:"bucket"`
	// Prefix is the first part of all keys, before a slash. Processes exclude each other
	// only under the same Prefix. Default "leases".
	Prefix string `json:"prefix" option:"default=leases,path,maxlen=500"`

	// Client is your own client, instead of the six fields that follow. Its retries,
	// redirects and checksums are not used. There must be no cache in front of the store.
	Client *s3.Client `json:"-"`
	// Region is the bucket's region. Default: the SDK's region, or us-east-1 with an Endpoint.
	Region string `json:"region"`
	// Endpoint is the address of a store that is not S3, such as https://host:9000.
	Endpoint string `json:"endpoint"`
	// PathStyle puts the bucket into the path of requests instead of the host name.
	PathStyle bool `json:"path_style"`
	// AccessKey and SecretKey authenticate, with SessionToken if they are temporary. Default: the SDK's keys from
	// the environment, from files, or from the machine's role. The SDK's files, and the bundle of AWS_CA_BUNDLE,
	// are read again when they change, if they exist at Open.
	AccessKey    string             `json:"access_key"`
	SecretKey    providerkit.Secret `json:"secret_key"`
	SessionToken providerkit.Secret `json:"session_token"`

	// ClockSkew bounds the difference between the store's clocks. A lease that is not
	// renewed blocks its name for that much longer. Default 2 s, at most 1 min.
	ClockSkew time.Duration `json:"clock_skew" option:"default=2s,min=1ms,max=1m"`
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
	keys := u.User != "" || !u.Password.IsZero()
	if u.Host == "" || o.Bucket != "" || prefix != "" && o.Prefix != "" || keys && o.AccessKey != "" {
		return providerkit.BadURL("s3://access-key:secret-key@bucket/prefix, with none of these parts in Options")
	}
	if keys {
		o.AccessKey, o.SecretKey = u.User, u.Password
	}
	o.URL, o.Bucket, o.Prefix = "", u.Host, o.Prefix+prefix
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
	endpoint, err := url.Parse(o.Endpoint)
	switch {
	case o.Bucket == "" || abstractions.ValidateName(o.Bucket) != nil || strings.Contains(o.Bucket, "/"):
		return providerkit.BadOption("Bucket", o.Bucket, "the name of a bucket")
	case o.Endpoint != "" && (err != nil || endpoint.Scheme != "https" && endpoint.Scheme != "http" || endpoint.Host == "" || endpoint.User != nil):
		return providerkit.BadOption("Endpoint", providerkit.NotShown, "https://host or http://host:port, without user or password")
	case (o.AccessKey == "") != o.SecretKey.IsZero(), o.AccessKey == "" && !o.SessionToken.IsZero():
		return providerkit.BadOption("SecretKey", providerkit.NotShown, "AccessKey as well, and both with a SessionToken")
	case o.Client != nil && (o.Region != "" || o.Endpoint != "" || o.PathStyle || o.AccessKey != ""):
		return providerkit.BadOption("Client", "with others", "no Region, Endpoint, PathStyle, AccessKey, SecretKey and SessionToken, which the client has")
	}
	return nil
}

// OpenURL is Open with Options.URL.
func OpenURL(ctx context.Context, rawURL string) (*Provider, error) {
	return Open(ctx, Options{URL: rawURL})
}

// Opener returns an opener for URLs that begin with s3://: see package open.
func Opener() abstractions.Opener { return abstractions.NewOpener(OpenURL, urlSchemes...) }

var urlSchemes = []string{"s3"}
