package s3lease

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go/middleware"
	"github.com/stretchr/testify/require"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// T118: neither the signature nor the session token follows a redirect to another host.
func TestTrap_T118_NoSecretFollowsARedirect(t *testing.T) {
	for name, options := range map[string]func(url string) Options{
		"keys": func(url string) Options {
			return Options{Endpoint: url, PathStyle: true, AccessKey: "leasing", SecretKey: providerkit.NewSecret("s3cret"), SessionToken: providerkit.NewSecret("s3ssion")}
		},
		"Client": func(url string) Options {
			return Options{Client: s3.New(s3.Options{
				BaseEndpoint: &url, Region: "us-east-1", UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("leasing", "s3cret", "s3ssion"),
				HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
			})}
		},
	} {
		t.Run(name, func(t *testing.T) {
			credentialtest.NoSecretIsRedirected(t, func(t testing.TB, url string) (abstractions.Provider, error) {
				o := options(url)
				o.Bucket = "b"
				return openUnprobed(t, o), nil
			}, "s3ssion", "s3cret", "s3ssion")
		})
	}
}

// T124: a panic of the application's keys, HTTP client or middleware does not end the process.
func TestTrap_T124_CodeOfTheApplicationPanics(t *testing.T) {
	o := Options{URL: serverURL(t, servers["gofakes3"])}
	require.NoError(t, o.complete())
	for name, set := range map[string]func(o *s3.Options, maybe func()){
		"keys": func(o *s3.Options, maybe func()) {
			o.Credentials = aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
				maybe()
				return aws.Credentials{AccessKeyID: "leasing", SecretAccessKey: "secret"}, nil
			})
		},
		"HTTP client": func(o *s3.Options, maybe func()) { o.HTTPClient = hookedClient{o.HTTPClient, maybe} },
		"middleware": func(o *s3.Options, maybe func()) {
			o.APIOptions = append(o.APIOptions, func(stack *middleware.Stack) error {
				return stack.Initialize.Add(middleware.InitializeMiddlewareFunc("of the application", func(
					ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler,
				) (middleware.InitializeOutput, middleware.Metadata, error) {
					maybe()
					return next.HandleInitialize(ctx, in)
				}), middleware.Before)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			credentialtest.ApplicationPanics(t, time.Minute, func(t testing.TB, maybe func()) abstractions.Provider {
				client := s3.Options{
					BaseEndpoint: &o.Endpoint, Region: "us-east-1", UsePathStyle: true, Credentials: credentials.NewStaticCredentialsProvider("leasing", "secret", ""),
					HTTPClient: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}},
				}
				set(&client, maybe)
				p, err := Open(t.Context(), Options{Bucket: o.Bucket, Prefix: abstractions.NewID(), Client: s3.New(client)})
				require.NoError(t, err)
				t.Cleanup(func() { require.NoError(t, p.Close()) })
				return p
			})
		})
	}
}

// hookedClient is an HTTP client that calls a function for each request.
type hookedClient struct {
	s3.HTTPClient
	maybe func()
}

func (d hookedClient) Do(r *http.Request) (*http.Response, error) {
	d.maybe()
	return d.HTTPClient.Do(r)
}
