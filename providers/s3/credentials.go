package s3lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/abstractions/providerkit/httpguard"
	"github.com/distributedleasing/leasing/abstractions/providerkit/livefile"
)

// sourceTimeout bounds each request to a source of credentials. The SDK makes all callers wait for one shared request, whose
// context never ends.
const sourceTimeout = 5 * time.Second

// configuration returns the SDK's configuration.
func (o *Options) configuration(ctx context.Context) (aws.Config, error) {
	var keys aws.CredentialsProvider
	if o.AccessKey != "" {
		keys = credentials.NewStaticCredentialsProvider(o.AccessKey, o.SecretKey.Reveal(), o.SessionToken.Reveal())
	}
	settings := append(loadSources(), config.WithRegion(o.Region), config.WithCredentialsProvider(keys))
	if o.Endpoint != "" {
		settings = append(settings, config.WithDefaultRegion("us-east-1"))
	}
	return config.LoadDefaultConfig(ctx, settings...)
}

// filesOf returns the files of a configuration that exist, and the path of its CA bundle, or "" if it has none:
// see config.EnvConfig and config.SharedConfig.
func filesOf(c aws.Config) (files []string, bundle string) {
	var env config.EnvConfig
	var profile config.SharedConfig
	for _, source := range c.ConfigSources {
		switch s := source.(type) {
		case config.EnvConfig:
			env = s
		case config.SharedConfig:
			profile = s
		}
	}
	bundle = cmp.Or(env.CustomCABundle, profile.CustomCABundle)
	for _, name := range []string{
		bundle, cmp.Or(env.SharedConfigFile, config.DefaultSharedConfigFilename()),
		cmp.Or(env.SharedCredentialsFile, config.DefaultSharedCredentialsFilename()),
	} {
		if _, err := os.Stat(name); err == nil {
			files = append(files, name)
		}
	}
	return files, bundle
}

// liveKeys is a source of keys that is configured again when a file of the SDK's configuration changes. The SDK
// reads the files only once, so it would keep using the keys of a replaced file.
type liveKeys struct {
	*livefile.Value[aws.CredentialsProvider]
}

// newLiveKeys makes a source that accepts only keys of the same kind as the current ones. A file that
// is empty for a moment would lead the SDK to another kind, such as the role of the machine.
func newLiveKeys(now aws.Config, files []string, configure func(context.Context) (aws.Config, error)) liveKeys {
	kind := kindOf(now.Credentials)
	return liveKeys{livefile.New(func([][]byte) (aws.CredentialsProvider, error) {
		ctx, cancel := context.WithTimeout(context.Background(), sourceTimeout)
		defer cancel()
		next, err := configure(ctx)
		if err == nil && !slices.Equal(kindOf(next.Credentials), kind) {
			err = fmt.Errorf("the files give keys of another kind: %v, not %v", kindOf(next.Credentials), kind)
		}
		return next.Credentials, err
	}, files...)}
}

func kindOf(source aws.CredentialsProvider) []aws.CredentialSource {
	if named, ok := source.(aws.CredentialProviderSource); ok {
		return named.ProviderSources()
	}
	return nil
}

func (l liveKeys) Retrieve(ctx context.Context) (aws.Credentials, error) {
	source, err := l.Get()
	if err != nil {
		return aws.Credentials{}, err
	}
	return source.Retrieve(ctx)
}

// loadSources configures the SDK's sources of credentials: STS, SSO, a container's endpoint, and the
// metadata service. Their client does not use a proxy for link-local requests. It does not follow redirects: they would send the
// token of a pod or of the metadata service to another host.
func loadSources() []func(*config.LoadOptions) error {
	// The SDK replaces CheckRedirect and the transport of its own client, and refuses other clients if
	// AWS_CA_BUNDLE is set. The SDK keeps Proxy.
	client := awshttp.NewBuildableClient().WithTimeout(sourceTimeout).WithTransportOptions(func(t *http.Transport) {
		t.Proxy, t.DisableKeepAlives = proxyOf, true
	})
	once := func() aws.Retryer { return aws.NopRetryer{} } // package leasing retries, and the SDK pauses for up to 20 s
	return []func(*config.LoadOptions) error{
		config.WithHTTPClient(client), config.WithRetryer(once),
		config.WithEndpointCredentialOptions(func(o *endpointcreds.Options) { o.HTTPClient, o.Retryer = client, once() }),
	}
}

// proxyOf is httpguard.Proxy. It fails a redirected request before anything is sent.
func proxyOf(req *http.Request) (*url.URL, error) {
	if req.Response != nil { // set only for redirected requests
		return nil, errors.New("the answer is a redirect, which no credentials follow")
	}
	return httpguard.Proxy(req)
}

// sources are the guarded sources of credentials of a client, which may be the application's.
type sources struct {
	keys    aws.CredentialsProvider // nil means anonymous
	express s3.ExpressCredentialsProvider
}

func sourcesOf(client s3.Options) (s sources) {
	if client.Credentials != nil {
		s.keys = guardedKeys{client.Credentials}
	}
	if client.ExpressCredentials != nil {
		s.express = guardedExpress{client.ExpressCredentials}
	}
	return s
}

// guardedKeys is a source of keys whose errors do not count as answers from the
// store.
type guardedKeys struct{ aws.CredentialsProvider }

func (g guardedKeys) Retrieve(ctx context.Context) (aws.Credentials, error) {
	return providerkit.AskCredentials(ctx, isRefused, g.CredentialsProvider.Retrieve)
}

// guardedExpress is guardedKeys for the sessions of S3 Express.
type guardedExpress struct{ s3.ExpressCredentialsProvider }

func (g guardedExpress) Retrieve(ctx context.Context, bucket string) (aws.Credentials, error) {
	return providerkit.AskCredentials(ctx, isRefused, func(ctx context.Context) (aws.Credentials, error) {
		return g.ExpressCredentialsProvider.Retrieve(ctx, bucket)
	})
}

// refusals are the codes with which a 400 refuses the identity:
// docs.aws.amazon.com/singlesignon/latest/OIDCAPIReference/API_CreateToken.html. STS refuses with a 403. Its errors with a 400,
// such as IDPCommunicationError and ExpiredTokenException, may be temporary.
var refusals = []string{"InvalidClientException", "InvalidGrantException", "UnauthorizedClientException"}

// isRefused reports whether a source of credentials has refused the identity.
func isRefused(err error) bool {
	var answered interface {
		error
		isRefused() int
	}
	if !errors.As(err, &answered) {
		return false
	}
	switch answered.isRefused() {
	case http.StatusUnauthorized, http.StatusForbidden:
		return true
	case http.StatusBadRequest:
		code, _, _ := answerOf(err)
		return slices.Contains(refusals, code)
	}
	return false
}
