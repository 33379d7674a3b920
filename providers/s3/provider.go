package s3lease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/cas"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
)

type shell = providerkit.Provider

// Provider is a leasing.Provider over S3, for leasing.NewManager. Make one with Open or
// OpenURL. It is safe for concurrent use.
//
// Its optional abilities are abstractions.Lister and abstractions.Pinger.
type Provider struct {
	*shell
	driver *driver
}

// Open opens a bucket, and tests with four or more requests whether the store honours
// conditional writes. It reports invalid options as leasing.ErrInvalid, and an
// unsuitable store or bucket as leasing.ErrNotSetUp.
func Open(ctx context.Context, options Options) (*Provider, error) {
	if err := errors.Join(ctx.Err(), options.complete()); err != nil {
		return nil, err
	}
	client, transport, err := options.client(ctx)
	if err != nil {
		return nil, err
	}
	p := newProvider(options, client, transport)
	if err = providerkit.Call(ctx, p.shell, "open", "", p.driver.store.probe); err != nil {
		return nil, errors.Join(err, p.Close())
	}
	return p, nil
}

func newProvider(o Options, client *s3.Client, transport *httpguard.Client) *Provider {
	s := &store{
		client: client, sources: sourcesOf(client.Options()), bucket: o.Bucket, naming: cas.Naming{Prefix: o.Prefix + "/", Max: maxKey},
		torn: client.Options().BaseEndpoint != nil, // the store is not S3
	}
	d := &driver{store: s}
	if transport != nil {
		s.checker, d.idle = &answerChecker{next: transport}, transport.CloseIdleConnections
	} else {
		s.checker, d.idle = guardClient(client.Options().HTTPClient)
	}
	d.Records = cas.Records{
		Store: s, Key: s.naming.Encode, Classify: d.Classify, ManualSweep: true,
		Expiry: &cas.Expiry{Resolution: resolution, Skew: o.ClockSkew},
	}
	return &Provider{providerkit.New(d, providerkit.Config{Timeout: o.Timeout, Detach: true}), d}
}

// client makes a client, with a transport that the provider closes. The transport is nil if the
// client is the application's. No request is sent.
func (o *Options) client(ctx context.Context) (*s3.Client, *httpguard.Client, error) {
	if o.Client != nil {
		return o.Client, nil, nil
	}
	c, err := o.configuration(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: the SDK's configuration: %w", abstractions.ErrInvalid, err)
	}
	if c.Region == "" {
		return nil, nil, providerkit.BadOption("Region", "", "the bucket's region, here or in AWS_REGION")
	}
	files, bundle := filesOf(c)
	if o.AccessKey == "" && len(files) > 0 {
		c.Credentials = newLiveKeys(c, files, o.configuration)
	}
	guarded := httpguard.New()
	if bundle != "" {
		authorities, err := livefile.NewTLS(bundle, "", "")
		if err != nil {
			return nil, nil, err
		}
		guarded.Transport().UseTLS(authorities)
	}
	c.HTTPClient = guarded
	return s3.NewFromConfig(c, func(client *s3.Options) {
		client.UsePathStyle = o.PathStyle
		if o.Endpoint != "" { // set only for S3: the configuration's endpoint applies to all services, including STS
			client.BaseEndpoint = &o.Endpoint
		}
	}), guarded, nil
}

// guardClient wraps the HTTP client of an application's S3 client. The SDK's default client follows
// 307 and 308, so guardClient replaces it with a copy of the net/http client inside. idle closes
// the connections of the copy.
func guardClient(users s3.HTTPClient) (_ *answerChecker, idle func()) {
	idle = func() {}
	if sdk, ok := users.(*awshttp.BuildableClient); ok {
		users = sdk.Freeze()
		if within, ok := users.(*http.Client); ok {
			idle = within.CloseIdleConnections
		}
	}
	return &answerChecker{next: httpguard.Wrap(users)}, idle
}

const (
	// resolution is the resolution of the store's times, Last-Modified and Date.
	resolution = time.Second
	// maxKey is below the limit of a file name, 255 bytes, since some stores keep objects as files,
	// and extend their names. S3 allows 1024 bytes with the prefix.
	maxKey = 200
)

// driver is the part of the provider that depends on the service. Records has the rules.
type driver struct {
	cas.Records
	store *store
	idle  func() // closes the provider's own connections
}

// Capabilities returns the limits in the package documentation.
func (d *driver) Capabilities() abstractions.Capabilities {
	return abstractions.Capabilities{
		Provider:       "s3",
		MinTTL:         5 * time.Second, // a few times the sum of the skew and the error of whole seconds
		MaxTTL:         12 * time.Hour,  // less than a day, the unit of lifecycle rules
		Granularity:    time.Millisecond,
		Clock:          "S3's clocks, Last-Modified and Date, or the monotonic clock of the process that asks",
		Lateness:       d.Expiry.Lateness(),
		RemainingKnown: true,
	}
}

// Ping reads the object of Open's probe.
func (d *driver) Ping(ctx context.Context) error {
	_, err := d.store.Get(ctx, d.store.probeKey())
	return err
}

func (d *driver) Close() error {
	d.idle()
	return nil
}
