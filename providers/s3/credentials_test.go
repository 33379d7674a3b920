package s3lease

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/distributedleasing/leasing/abstractions"
	"github.com/distributedleasing/leasing/abstractions/credentialtest"
)

const podToken = "the-pods-token"

// noSources removes all of the SDK's sources of credentials, except those that a test sets.
func noSources(t *testing.T) {
	t.Helper()
	for _, name := range []string{
		"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE",
		"AWS_CONTAINER_CREDENTIALS_FULL_URI", "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", "AWS_CONTAINER_AUTHORIZATION_TOKEN",
		"AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL_STS", "AWS_REGION", "AWS_DEFAULT_REGION",
	} {
		t.Setenv(name, "") // so that the test restores the value
		require.NoError(t, os.Unsetenv(name))
	}
	none := filepath.Join(t.TempDir(), "none")
	t.Setenv("AWS_CONFIG_FILE", none)
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", none)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

// keys returns keys for the test servers. The keys are valid for a second or two.
func keys(expires string) string {
	return fmt.Sprintf(`{"Code": "Success", "Type": "AWS-HMAC", "AccessKeyId": "leasing", "SecretAccessKey": "test-secret", "Token": "", %q: %q}`,
		expires, time.Now().Add(2*time.Second).UTC().Format(time.RFC3339))
}

func sts(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult><Credentials>
		<AccessKeyId>leasing</AccessKeyId><SecretAccessKey>test-secret</SecretAccessKey><SessionToken></SessionToken><Expiration>%s</Expiration>
		</Credentials></AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>`, time.Now().Add(2*time.Second).UTC().Format(time.RFC3339))
}

func imds(w http.ResponseWriter, r *http.Request) {
	switch r.URL.Path {
	case "/latest/api/token":
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "21600")
		fmt.Fprint(w, "metadata-token")
	case "/latest/meta-data/iam/security-credentials/", "/latest/meta-data/iam/security-credentials-extended/":
		fmt.Fprint(w, "role")
	default:
		fmt.Fprint(w, keys("Expiration"))
	}
}

// sourcesOfKeys are the SDK's sources, each as a server and the settings that lead the SDK to that server.
var sourcesOfKeys = map[string]struct {
	serve http.HandlerFunc
	body  func(status int) string
	set   func(t *testing.T, url string)
}{
	"web identity": {sts, func(status int) string {
		return fmt.Sprintf(`<ErrorResponse><Error><Code>%s</Code><Message>of the source</Message></Error></ErrorResponse>`,
			map[int]string{400: "IDPCommunicationError", 401: "InvalidClientTokenId", 403: "AccessDenied", 404: "NoSuchKey", 409: "Conflict", 429: "Throttling", 503: "SlowDown"}[status])
	}, func(t *testing.T, url string) {
		file := filepath.Join(t.TempDir(), "token")
		require.NoError(t, os.WriteFile(file, []byte(podToken), 0o600))
		t.Setenv("AWS_WEB_IDENTITY_TOKEN_FILE", file)
		t.Setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/test")
		t.Setenv("AWS_ENDPOINT_URL_STS", url)
	}},
	"container": {func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, keys("Expiration")) }, func(int) string {
		return `{"code": "NoSuchKey", "message": "of the source"}`
	}, func(t *testing.T, url string) {
		t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", url+"/keys")
		t.Setenv("AWS_CONTAINER_AUTHORIZATION_TOKEN", podToken)
	}},
	"metadata service": {imds, func(int) string { return "none" }, func(t *testing.T, url string) {
		t.Setenv("AWS_EC2_METADATA_DISABLED", "false")
		t.Setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
	}},
}

// T119: an error from the SDK's sources of keys is not reported as an error of the
// bucket.
func TestTrap_T119_SourcesOfKeysFail(t *testing.T) {
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { // the SDK's own requests to a source continue for up to sourceTimeout
		end := time.Now().Add(2 * sourceTimeout)
		for goleak.Find(before) != nil && time.Now().Before(end) { // Find itself waits a little
			continue
		}
	})
	for name, from := range sourcesOfKeys {
		t.Run(name, func(t *testing.T) {
			noSources(t)
			source := &credentialtest.Source{Body: from.body}
			server := httptest.NewServer(source.Handler(from.serve))
			t.Cleanup(server.Close)
			from.set(t, server.URL)
			o := Options{URL: serverURL(t, servers["versitygw"])}
			require.NoError(t, o.complete())
			o.AccessKey, o.SecretKey, o.Prefix = "", o.SessionToken, abstractions.NewID()
			var fresh func(testing.TB) abstractions.Provider
			if name == "metadata service" { // the SDK uses its keys for another quarter of an hour
				fresh = func(t testing.TB) abstractions.Provider { return openUnprobed(t, o) }
			}
			credentialtest.SourcesOfCredentials(t, credentialtest.SourceCheck{
				Source: source, TTL: time.Minute, Fresh: fresh,
				Open: func(t testing.TB) abstractions.Provider {
					p, err := Open(t.Context(), o)
					require.NoError(t, err)
					t.Cleanup(func() { require.NoError(t, p.Close()) })
					return p
				},
			})
		})
	}
}

// T118: only the store's requests go to the endpoint. STS gets its requests at its own address,
// and the pod's token is sent neither to the store nor to the host of a redirect.
func TestTrap_T118_TheStoreGetsNoTokenOfItsSources(t *testing.T) {
	for name, from := range sourcesOfKeys {
		for _, status := range []int{200, 301, 302, 303, 307, 308} {
			t.Run(fmt.Sprint(name, " ", status), func(t *testing.T) {
				noSources(t)
				var store, elsewhere credentialtest.Recorder
				bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					store.Record(r)
					w.WriteHeader(http.StatusServiceUnavailable)
				}))
				defer bucket.Close()
				other := httptest.NewServer(&elsewhere)
				defer other.Close()
				source := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if status != http.StatusOK && r.URL.Path != "/latest/api/token" {
						http.Redirect(w, r, other.URL+r.URL.Path, status)
						return
					}
					from.serve(w, r)
				}))
				defer source.Close()
				from.set(t, source.URL)
				_, err := Open(t.Context(), Options{Bucket: "b", PathStyle: true, Endpoint: bucket.URL})
				require.ErrorIs(t, err, abstractions.ErrUnavailable)
				require.Empty(t, elsewhere.String())
				require.NotContains(t, store.String(), podToken)
				require.NotContains(t, store.String(), "AssumeRole")
				require.Equal(t, status == http.StatusOK, strings.Contains(store.String(), "GET /b/leases/"), "the bucket is asked with keys alone")
			})
		}
	}
}

// T120: requests to link-local addresses use no proxy, and all other requests use the proxy.
func TestTrap_T120_LinkLocalSourcesHaveNoProxy(t *testing.T) {
	const proxy = "http://127.0.0.1:1"
	if os.Getenv("LEASING_TEST_PROXIED") == "" {
		credentialtest.Proxied(t, proxy)
		return
	}
	var o config.LoadOptions
	for _, set := range loadSources() {
		require.NoError(t, set(&o))
	}
	var container endpointcreds.Options
	o.EndpointCredentialOptions(&container)
	transport := o.HTTPClient.(*awshttp.BuildableClient).GetTransport()
	credentialtest.LinkLocalIsNotProxied(t, transport.Proxy, proxy)
	require.Same(t, o.HTTPClient, container.HTTPClient)
}
