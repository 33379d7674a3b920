package auth_test

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/auth"
	"github.com/stretchr/testify/require"
)

func requireInvalid(t *testing.T, err error, field string) {
	t.Helper()
	var invalid *leasing.InvalidError
	require.ErrorAs(t, err, &invalid)
	require.Equal(t, field, invalid.Field, "%v", err)
	require.ErrorIs(t, err, leasing.ErrInvalid)
}

func aToken(context.Context) (string, error) { return "", nil }

// Validate, New and Explain refuse options that can't work, and name the field.
func TestInvalidOptions(t *testing.T) {
	clearEnvironment(t)
	type (
		o = auth.Options
		m = auth.ManagedIdentityOptions
		w = auth.WorkloadIdentityOptions
		s = auth.ServicePrincipalOptions
		f = auth.FederatedCredentialOptions
		d = auth.DevelopmentOptions
	)
	foreign := auth.Options{Mode: auth.Auto, Cloud: auth.AzureChina}
	foreign.Client.Cloud = cloud.AzureGovernment
	headless := auth.Options{Mode: auth.Auto}
	headless.Client.Cloud.Services = map[cloud.ServiceName]cloud.ServiceConfiguration{cloud.ResourceManager: {}}
	for _, c := range []struct {
		field   string
		options auth.Options
	}{
		{"Mode", o{}},
		{"Mode", o{Mode: "auto"}},
		{"Mode", o{ManagedIdentity: m{ClientID: "c"}}},
		{"Mode", o{Mode: auth.Development, Environment: "Production"}},
		{"Mode", o{Mode: auth.Development, Environment: " prod "}},
		{"ManagedIdentity", o{Mode: auth.WorkloadIdentity, ManagedIdentity: m{ClientID: "c"}}},
		{"WorkloadIdentity", o{Mode: auth.ManagedIdentity, WorkloadIdentity: w{Audience: "a"}}},
		{"ServicePrincipal", o{Mode: auth.ManagedIdentity, ServicePrincipal: s{ClientSecret: "x"}}},
		{"ServicePrincipal", o{Mode: auth.Auto, ServicePrincipal: s{ClientSecret: "x"}}},
		{"FederatedCredential", o{Mode: auth.Auto, FederatedCredential: f{Token: aToken}}},
		{"Development", o{Mode: auth.ManagedIdentity, Development: d{TenantID: "t"}}},
		{"ManagedIdentity.ClientID", o{Mode: auth.ManagedIdentity, ManagedIdentity: m{ClientID: "c \n"}}},
		{"ManagedIdentity.ClientID", o{Mode: auth.Auto, ManagedIdentity: m{ClientID: "c "}}},
		{"Development.TenantID", o{Mode: auth.Development, Development: d{TenantID: "t;rm"}}},
		{"Development.TenantID", o{Mode: auth.Auto, Development: d{TenantID: "t "}}},
		{"WorkloadIdentity.TenantID", o{Mode: auth.WorkloadIdentity}},
		{"WorkloadIdentity.TenantID", o{Mode: auth.Auto, WorkloadIdentity: w{ClientID: "c"}}},
		{"WorkloadIdentity.TenantID", o{Mode: auth.WorkloadIdentity, WorkloadIdentity: w{TenantID: "a/b", ClientID: "c", TokenFilePath: "p"}}},
		{"WorkloadIdentity.ClientID", o{Mode: auth.WorkloadIdentity, WorkloadIdentity: w{TenantID: "t", TokenFilePath: "p"}}},
		{"WorkloadIdentity.TokenFilePath", o{Mode: auth.WorkloadIdentity, WorkloadIdentity: w{TenantID: "t", ClientID: "c"}}},
		{"WorkloadIdentity.Audience", o{Mode: auth.WorkloadIdentity, WorkloadIdentity: w{TenantID: "t", ClientID: "c", TokenFilePath: "p", Audience: "a"}}},
		{"ServicePrincipal.TenantID", o{Mode: auth.ServicePrincipal, ServicePrincipal: s{ClientID: "c", ClientSecret: "x"}}},
		{"ServicePrincipal.ClientID", o{Mode: auth.ServicePrincipal, ServicePrincipal: s{TenantID: "t", ClientSecret: "x"}}},
		{"ServicePrincipal", o{Mode: auth.ServicePrincipal, ServicePrincipal: s{TenantID: "t", ClientID: "c"}}},
		{"ServicePrincipal", o{Mode: auth.ServicePrincipal, ServicePrincipal: s{TenantID: "t", ClientID: "c", ClientSecret: "x", CertificatePath: "p"}}},
		{"ServicePrincipal.CertificatePassword", o{Mode: auth.ServicePrincipal, ServicePrincipal: s{TenantID: "t", ClientID: "c", ClientSecret: "x", CertificatePassword: "x"}}},
		{"ServicePrincipal.CertificatePassword", o{Mode: auth.ServicePrincipal, ServicePrincipal: s{TenantID: "t", ClientID: "c", CertificatePassword: "x"}}},
		{"ServicePrincipal.SendCertificateChain", o{Mode: auth.ServicePrincipal, ServicePrincipal: s{TenantID: "t", ClientID: "c", ClientSecret: "x", SendCertificateChain: true}}},
		{"FederatedCredential.TenantID", o{Mode: auth.FederatedCredential, FederatedCredential: f{ClientID: "c", Token: aToken}}},
		{"FederatedCredential.ClientID", o{Mode: auth.FederatedCredential, FederatedCredential: f{TenantID: "t", Token: aToken}}},
		{"FederatedCredential", o{Mode: auth.FederatedCredential, FederatedCredential: f{TenantID: "t", ClientID: "c"}}},
		{"FederatedCredential", o{Mode: auth.FederatedCredential, FederatedCredential: f{TenantID: "t", ClientID: "c", TokenFilePath: "p", Token: aToken}}},
		{"Cloud", o{Mode: auth.Auto, Cloud: "azurepublic"}},
		{"AuthorityHost", o{Mode: auth.Auto, AuthorityHost: "http://host"}},
		{"AuthorityHost", o{Mode: auth.Auto, AuthorityHost: "https://"}},
		{"AuthorityHost", o{Mode: auth.Auto, AuthorityHost: "https://u:p@host"}},
		{"AuthorityHost", o{Mode: auth.Auto, AuthorityHost: "https://host?x=y"}},
		{"AuthorityHost", o{Mode: auth.ManagedIdentity, AuthorityHost: "https://host"}},
		{"AuthorityHost", o{Mode: auth.Development, AuthorityHost: "https://host"}},
		{"Client.Cloud", foreign},
		{"Client.Cloud.ActiveDirectoryAuthorityHost", headless},
	} {
		requireInvalid(t, c.options.Validate(), "auth.Options."+c.field)
		made, err := auth.New(c.options)
		requireInvalid(t, err, "auth.Options."+c.field)
		require.Nil(t, made)
		requireInvalid(t, auth.Explain(c.options).Err, "auth.Options."+c.field)
	}
}

func TestIsZero(t *testing.T) {
	require.True(t, auth.Options{}.IsZero())
	for _, o := range []auth.Options{
		{Mode: auth.Auto}, {Cloud: auth.AzureChina}, {Environment: "x"},
		{FederatedCredential: auth.FederatedCredentialOptions{Token: aToken}},
		{ServicePrincipal: auth.ServicePrincipalOptions{SendCertificateChain: true}},
	} {
		require.False(t, o.IsZero())
	}
	withClient := auth.Options{}
	withClient.Client.Retry.MaxRetries = 1
	require.False(t, withClient.IsZero())
}

// The JSON has the same settings as a configuration of the .NET library.
func TestJSON(t *testing.T) {
	for text, want := range map[string]auth.Options{
		`{}`:               {},
		`{"mode": "Auto"}`: {Mode: auth.Auto},
		`{"mode": "AUTO"}`: {Mode: auth.Auto},
		`{"mode":"ManagedIdentity","managed_identity":{"client_id":"c"}}`: {Mode: auth.ManagedIdentity, ManagedIdentity: auth.ManagedIdentityOptions{ClientID: "c"}},
		`{"mode":"WorkloadIdentity","workload_identity":{"tenant_id":"t","client_id":"c","token_file_path":"p"}}`: {
			Mode: auth.WorkloadIdentity, WorkloadIdentity: auth.WorkloadIdentityOptions{TenantID: "t", ClientID: "c", TokenFilePath: "p"},
		},
		`{"mode":"ServicePrincipal","service_principal":{"tenant_id":"t","client_id":"c","client_secret":"s"}}`: {
			Mode: auth.ServicePrincipal, ServicePrincipal: auth.ServicePrincipalOptions{TenantID: "t", ClientID: "c", ClientSecret: "s"},
		},
		`{"mode":"ServicePrincipal","service_principal":{"certificate_path":"p","certificate_password":"w","send_certificate_chain":true}}`: {
			Mode: auth.ServicePrincipal, ServicePrincipal: auth.ServicePrincipalOptions{CertificatePath: "p", CertificatePassword: "w", SendCertificateChain: true},
		},
		`{"mode":"FederatedCredential","federated_credential":{"tenant_id":"t","client_id":"c","token_file_path":"p"}}`: {
			Mode: auth.FederatedCredential, FederatedCredential: auth.FederatedCredentialOptions{TenantID: "t", ClientID: "c", TokenFilePath: "p"},
		},
		`{"mode":"Development","development":{"tenant_id":"t"},"environment":"test"}`: {
			Mode: auth.Development, Development: auth.DevelopmentOptions{TenantID: "t"}, Environment: "test",
		},
		`{"mode":"Auto","cloud":"AzureGovernment","authority_host":"https://h"}`: {Mode: auth.Auto, Cloud: auth.AzureGovernment, AuthorityHost: "https://h"},
	} {
		var configuration struct{ Auth auth.Options }
		require.NoError(t, json.Unmarshal([]byte(`{"auth":`+text+`}`), &configuration), text)
		require.Equal(t, want, configuration.Auth, text)
	}
}

// T52: an unknown setting is refused, not ignored.
func TestTrap_T52_UnknownSettingsAreRefused(t *testing.T) {
	for text, names := range map[string]string{
		`{"mode":"Manged"}`:                           `"Manged"`,
		`{"mode":7}`:                                  "Mode",
		`{"Modus":"Auto"}`:                            "Modus",
		`{"managed_identity":{"ClientIds":"c"}}`:      "ClientIds",
		`{"service_principal":{"Secret":"s3cret"}}`:   "Secret",
		`{"federated_credential":{"Token":"s3cret"}}`: "Token",
		`{"Client":{}}`:                               "Client",
	} {
		var o auth.Options
		err := json.Unmarshal([]byte(text), &o)
		var invalid *leasing.InvalidError
		require.ErrorAs(t, err, &invalid, text)
		require.ErrorContains(t, err, names)
		require.NotContains(t, err.Error(), "s3cret")
	}
}

func TestCloudConfiguration(t *testing.T) {
	clearEnvironment(t)
	own := auth.Options{}
	own.Client.Cloud = cloud.Configuration{ActiveDirectoryAuthorityHost: "https://own/"}
	const public, government, china = "https://login.microsoftonline.com/", "https://login.microsoftonline.us/", "https://login.chinacloudapi.cn/"
	for _, c := range []struct {
		options  auth.Options
		variable string
		want     string
	}{
		{auth.Options{}, "", public},
		{auth.Options{Cloud: auth.AzurePublic}, "", public},
		{auth.Options{Cloud: auth.AzureGovernment}, "", government},
		{auth.Options{Cloud: auth.AzureChina}, "", china},
		{auth.Options{AuthorityHost: "https://mine"}, "https://variable", "https://mine"},
		{auth.Options{Cloud: auth.AzureChina, AuthorityHost: "https://mine"}, "", "https://mine"},
		{auth.Options{}, "https://variable", "https://variable"},
		{auth.Options{Cloud: auth.AzureChina}, "https://variable", china},
		{own, "https://variable", "https://own/"},
	} {
		t.Setenv("AZURE_AUTHORITY_HOST", c.variable)
		configuration, err := c.options.CloudConfiguration()
		require.NoError(t, err)
		require.Equal(t, c.want, configuration.ActiveDirectoryAuthorityHost)
	}
	t.Setenv("AZURE_AUTHORITY_HOST", "http://variable")
	_, err := auth.Options{}.CloudConfiguration()
	requireInvalid(t, err, "AZURE_AUTHORITY_HOST")
}
