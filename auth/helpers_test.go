package auth_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing/auth"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scope is the scope of Azure Storage.
const scope, audience = "https://storage.azure.com/.default", "https://storage.azure.com"

func request() policy.TokenRequestOptions { return policy.TokenRequestOptions{Scopes: []string{scope}} }

// clearEnvironment clears the variables that package auth or azidentity reads.
func clearEnvironment(t *testing.T) {
	t.Helper()
	for _, name := range append(auth.EnvironmentVariables(),
		"LEASING_AUTH_MODE", "LEASING_AUTH_CLOUD", "AZURE_TENANT_ID", "AZURE_CLIENT_ID", "AZURE_CLIENT_SECRET",
		"AZURE_CLIENT_CERTIFICATE_PATH", "AZURE_CLIENT_CERTIFICATE_PASSWORD", "AZURE_CLIENT_SEND_CERTIFICATE_CHAIN",
		"AZURE_FEDERATED_TOKEN_FILE", "AZURE_AUTHORITY_HOST", "ACTIONS_ID_TOKEN_REQUEST_URL", "ACTIONS_ID_TOKEN_REQUEST_TOKEN",
		"IDENTITY_ENDPOINT", "IDENTITY_HEADER", "IDENTITY_SERVER_THUMBPRINT", "MSI_ENDPOINT", "MSI_SECRET", "IMDS_ENDPOINT",
	) {
		t.Setenv(name, "")
	}
}

// transport is a function that answers requests.
type transport func(*http.Request) (*http.Response, error)

func (f transport) Do(r *http.Request) (*http.Response, error) { return f(r) }

func newResponse(r *http.Request) *http.Response {
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: http.Header{}, Body: http.NoBody, Request: r}
}

func body(response *http.Response, text string) *http.Response {
	response.Body = io.NopCloser(strings.NewReader(text))
	return response
}
