package auth_test

import (
	"testing"

	"github.com/distributedleasing/leasing/auth"
	"github.com/distributedleasing/leasing/auth/authtest"
	"github.com/stretchr/testify/require"
)

func setAll(t *testing.T, variables map[string]string) {
	t.Helper()
	clearEnvironment(t)
	for name, value := range variables {
		t.Setenv(name, value)
	}
}

// FromEnvironment reads the variables of the table in the package's documentation.
func TestFromEnvironment(t *testing.T) {
	type v = map[string]string
	for _, c := range []struct {
		variables v
		want      auth.Options
	}{
		{v{}, auth.Options{Mode: auth.Auto}},
		{v{"LEASING_AUTH_MODE": "managedidentity"}, auth.Options{Mode: auth.ManagedIdentity}},
		{v{"LEASING_AUTH_MODE": "ManagedIdentity", "AZURE_CLIENT_ID": "c", "LEASING_AUTH_CLOUD": "AzureChina"}, auth.Options{
			Mode: auth.ManagedIdentity, ManagedIdentity: auth.ManagedIdentityOptions{ClientID: "c"}, Cloud: auth.AzureChina,
		}},
		{v{"LEASING_AUTH_MODE": "WorkloadIdentity", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_FEDERATED_TOKEN_FILE": "f"}, auth.Options{
			Mode: auth.WorkloadIdentity, WorkloadIdentity: auth.WorkloadIdentityOptions{TenantID: "t", ClientID: "c", TokenFilePath: "f"},
		}},
		{v{"LEASING_AUTH_MODE": "FederatedCredential", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_FEDERATED_TOKEN_FILE": "f"}, auth.Options{
			Mode: auth.FederatedCredential, FederatedCredential: auth.FederatedCredentialOptions{TenantID: "t", ClientID: "c", TokenFilePath: "f"},
		}},
		{v{"LEASING_AUTH_MODE": "ServicePrincipal", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s", "AZURE_CLIENT_CERTIFICATE_PATH": "p"}, auth.Options{
			Mode: auth.ServicePrincipal, ServicePrincipal: auth.ServicePrincipalOptions{TenantID: "t", ClientID: "c", ClientSecret: "s"},
		}},
		{v{
			"LEASING_AUTH_MODE": "ServicePrincipal", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_CERTIFICATE_PATH": "p",
			"AZURE_CLIENT_CERTIFICATE_PASSWORD": "w", "AZURE_CLIENT_SEND_CERTIFICATE_CHAIN": "1",
		}, auth.Options{
			Mode: auth.ServicePrincipal, ServicePrincipal: auth.ServicePrincipalOptions{TenantID: "t", ClientID: "c", CertificatePath: "p", CertificatePassword: "w", SendCertificateChain: true},
		}},
		{v{"LEASING_AUTH_MODE": "Development", "AZURE_TENANT_ID": "t"}, auth.Options{Mode: auth.Development}},
	} {
		setAll(t, c.variables)
		got, err := auth.FromEnvironment()
		require.NoError(t, err)
		require.Equal(t, c.want, got)
	}
}

func TestFromEnvironmentNamesWhatIsMissing(t *testing.T) {
	type v = map[string]string
	for field, variables := range map[string]v{
		"LEASING_AUTH_MODE":                           {"LEASING_AUTH_MODE": "none"},
		"auth.Options.Cloud":                          {"LEASING_AUTH_CLOUD": "Mars"},
		"auth.Options.ServicePrincipal.TenantID":      {"LEASING_AUTH_MODE": "ServicePrincipal"},
		"auth.Options.WorkloadIdentity.ClientID":      {"LEASING_AUTH_MODE": "WorkloadIdentity", "AZURE_TENANT_ID": "t"},
		"auth.Options.Mode":                           {"LEASING_AUTH_MODE": "Development", "APP_ENV": "production"},
		"AZURE_CLIENT_SEND_CERTIFICATE_CHAIN":         {"LEASING_AUTH_MODE": "ServicePrincipal", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_CERTIFICATE_PATH": "p", "AZURE_CLIENT_SEND_CERTIFICATE_CHAIN": "yes"},
		"ACTIONS_ID_TOKEN_REQUEST_TOKEN":              {"LEASING_AUTH_MODE": "WorkloadIdentity", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "ACTIONS_ID_TOKEN_REQUEST_URL": "https://h"},
		"ACTIONS_ID_TOKEN_REQUEST_URL":                {"LEASING_AUTH_MODE": "WorkloadIdentity", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "ACTIONS_ID_TOKEN_REQUEST_URL": "http://h", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t"},
		"auth.Options.WorkloadIdentity.TokenFilePath": {"LEASING_AUTH_MODE": "WorkloadIdentity", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c", "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "t"},
		"auth.Options.FederatedCredential":            {"LEASING_AUTH_MODE": "FederatedCredential", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"},
		"auth.Options.ServicePrincipal":               {"LEASING_AUTH_MODE": "ServicePrincipal", "AZURE_TENANT_ID": "t", "AZURE_CLIENT_ID": "c"},
	} {
		setAll(t, variables)
		_, err := auth.FromEnvironment()
		requireInvalid(t, err, field)
	}
}

// Settings in the options are not combined with environment variables.
func TestOptionsComeBeforeVariables(t *testing.T) {
	setAll(t, map[string]string{
		"AZURE_TENANT_ID": "other", "AZURE_CLIENT_ID": "other", "AZURE_CLIENT_SECRET": "other", "AZURE_FEDERATED_TOKEN_FILE": "other",
	})
	server := authtest.Start(t)
	for _, options := range []auth.Options{server.ClientSecret(), server.Certificate(), server.WorkloadIdentity(), server.Federated(), server.FederatedFile()} {
		credential, err := auth.New(options)
		require.NoError(t, err)
		_, err = credential.GetToken(t.Context(), request())
		require.NoError(t, err)
	}
}

// Development is refused in production. If Options.Environment is empty, any one of the variables
// can say that this is production.
func TestWhereDevelopmentIsRefused(t *testing.T) {
	type v = map[string]string
	for _, c := range []struct {
		variables   v
		environment string
		refused     bool
	}{
		{v{}, "", false},
		{v{"APP_ENV": "staging"}, "", false},
		{v{"APP_ENV": "reproduction"}, "", false},
		{v{"AZURE_ENVIRONMENT": "production"}, "", false}, // names a cloud
		{v{"ENVIRONMENT": "production"}, "", true},
		{v{"APP_ENV": "PROD"}, "", true},
		{v{"GO_ENV": "production"}, "", true},
		{v{"DOTNET_ENVIRONMENT": "Production"}, "", true},
		{v{"ASPNETCORE_ENVIRONMENT": " Production "}, "", true},
		{v{"AZURE_FUNCTIONS_ENVIRONMENT": "Production"}, "", true},
		{v{"ENVIRONMENT": "development", "APP_ENV": "staging", "GO_ENV": "production", "DOTNET_ENVIRONMENT": "staging"}, "", true},
		{v{"ENVIRONMENT": "production"}, "test", false},
		{v{"ENVIRONMENT": "test"}, "production", true},
	} {
		setAll(t, c.variables)
		t.Setenv("AZURE_ENVIRONMENT", c.variables["AZURE_ENVIRONMENT"])
		err := auth.Options{Mode: auth.Development, Environment: c.environment}.Validate()
		if c.refused {
			requireInvalid(t, err, "auth.Options.Mode")
		} else {
			require.NoError(t, err)
		}
	}
}
