package auth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/distributedleasing/leasing"
	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// Mode names a way to get tokens from Microsoft Entra ID.
type Mode string

// The modes. The table in the package's documentation lists the settings of each mode and their
// sources.
const (
	// Auto tries the sources of tokens that the environment offers, in a fixed order: see Explain.
	Auto Mode = "Auto"
	// ManagedIdentity is the identity that Azure assigns to a machine, an app service,
	// a function, a container app or a cluster's node.
	ManagedIdentity Mode = "ManagedIdentity"
	// WorkloadIdentity is a Kubernetes service account, or a GitHub Actions job,
	// that an application or a managed identity in Entra ID trusts.
	WorkloadIdentity Mode = "WorkloadIdentity"
	// ServicePrincipal is an application with a secret or a certificate.
	ServicePrincipal Mode = "ServicePrincipal"
	// FederatedCredential is an application that trusts the tokens of some other
	// issuer, which a file or a function provides.
	FederatedCredential Mode = "FederatedCredential"
	// Development is the user who is signed in to the tools on a developer's
	// machine: az, azd, Azure PowerShell, tried in this order until one returns
	// a token. It is refused if the environment says production.
	Development Mode = "Development"
)

// Options select the source of tokens. The zero Options name no mode: see IsZero.
//
// In JSON the fields have the names in their tags, in upper or lower case. Unknown
// fields, and settings of a mode other than Mode, are errors. Options that are printed, logged or
// written as JSON show no secret.
type Options struct {
	// Mode is required.
	Mode Mode `json:"mode"`

	// ManagedIdentity configures that mode, and Auto.
	ManagedIdentity ManagedIdentityOptions `json:"managed_identity"`
	// WorkloadIdentity configures that mode, and Auto.
	WorkloadIdentity WorkloadIdentityOptions `json:"workload_identity"`
	// ServicePrincipal configures that mode. Auto reads these settings from the environment.
	ServicePrincipal ServicePrincipalOptions `json:"service_principal"`
	// FederatedCredential configures that mode.
	FederatedCredential FederatedCredentialOptions `json:"federated_credential"`
	// Development configures that mode, and Auto.
	Development DevelopmentOptions `json:"development"`

	// Cloud is AzurePublic, AzureGovernment or AzureChina. Default AzurePublic.
	Cloud string `json:"cloud"`
	// AuthorityHost is the address of Entra ID, which begins with https://. Default:
	// the variable AZURE_AUTHORITY_HOST, unless Cloud is set, or else the cloud's
	// address. A host that belongs to none of these clouds is trusted without a check.
	// It must be empty for ManagedIdentity and Development, which send no request to an
	// authority.
	AuthorityHost string `json:"authority_host"`
	// Environment says where the program runs, for Auto and Development: "production"
	// (or "prod"), "staging" (or "stage"), in upper or lower case, or any other word.
	// Default: the strictest value among the variables of EnvironmentVariables.
	Environment string `json:"environment"`
	// Client configures the requests for tokens: transport, retries, logging. Without
	// Retry there is one attempt, or azidentity's number of attempts for managed
	// identities. Client.Cloud is for clouds that Cloud can't name; it can't be combined
	// with Cloud or AuthorityHost.
	Client policy.ClientOptions `json:"-"`
}

// ManagedIdentityOptions are for mode ManagedIdentity.
type ManagedIdentityOptions struct {
	// ClientID is the client ID of a user-assigned identity. Default: the system-assigned identity.
	// In Auto the default is the variable AZURE_CLIENT_ID.
	ClientID string `json:"client_id"`
}

// WorkloadIdentityOptions are for mode WorkloadIdentity. If neither
// TokenFilePath nor its variable is set, but the variables of a GitHub Actions
// job with the permission "id-token: write" are set, the job's tokens are used.
type WorkloadIdentityOptions struct {
	// TenantID is the directory of the identity. Default: AZURE_TENANT_ID.
	TenantID string `json:"tenant_id"`
	// ClientID is the client ID of the application or managed identity. Default: AZURE_CLIENT_ID.
	ClientID string `json:"client_id"`
	// TokenFilePath is the file with the service account's token, which
	// Kubernetes renews. Default: AZURE_FEDERATED_TOKEN_FILE.
	TokenFilePath string `json:"token_file_path"`
	// Audience is the audience of a GitHub Actions job's tokens. It must be the
	// audience in the identity's federated credential. Default: the cloud's audience,
	// api://AzureADTokenExchange in AzurePublic.
	Audience string `json:"audience"`
}

// ServicePrincipalOptions are for mode ServicePrincipal. One of ClientSecret and
// CertificatePath is required; if both are empty their variables are read.
type ServicePrincipalOptions struct {
	// TenantID is the directory of the application. Default: AZURE_TENANT_ID.
	TenantID string `json:"tenant_id"`
	// ClientID is the application's client ID. Default: AZURE_CLIENT_ID.
	ClientID string `json:"client_id"`
	// ClientSecret is one of the application's secrets. Default: AZURE_CLIENT_SECRET.
	ClientSecret string `json:"client_secret" option:"secret"`
	// CertificatePath is a file with a certificate and its private key, as PEM
	// or PKCS#12. Default: AZURE_CLIENT_CERTIFICATE_PATH. New reads the file.
	CertificatePath string `json:"certificate_path"`
	// CertificatePassword is the password of a PKCS#12 file. Default, if
	// CertificatePath is empty too: AZURE_CLIENT_CERTIFICATE_PASSWORD.
	CertificatePassword string `json:"certificate_password" option:"secret"`
	// SendCertificateChain lets Entra ID check the certificate by subject and
	// issuer, so that a renewed certificate needs no registration.
	SendCertificateChain bool `json:"send_certificate_chain"`
}

// FederatedCredentialOptions are for mode FederatedCredential. One of
// TokenFilePath and Token is required.
type FederatedCredentialOptions struct {
	// TenantID is the directory of the application. Default: AZURE_TENANT_ID.
	TenantID string `json:"tenant_id"`
	// ClientID is the application's client ID. Default: AZURE_CLIENT_ID.
	ClientID string `json:"client_id"`
	// TokenFilePath is a file with the other issuer's token. It is read for each
	// request to Entra ID.
	TokenFilePath string `json:"token_file_path"`
	// Token returns the other issuer's token. It is called for each request to Entra
	// ID, possibly by several goroutines at once.
	Token func(context.Context) (string, error) `json:"-"`
}

// DevelopmentOptions are for mode Development.
type DevelopmentOptions struct {
	// TenantID is a directory. Default: the directory that the tool is signed in to.
	TenantID string `json:"tenant_id"`
}

// IsZero reports whether no field is set: the options name no mode.
func (o Options) IsZero() bool { return reflect.ValueOf(o).IsZero() }

// UnmarshalText reads a mode, in upper or lower case.
func (m *Mode) UnmarshalText(text []byte) error {
	for _, mode := range modes {
		if strings.EqualFold(string(mode), string(text)) {
			*m = mode
			return nil
		}
	}
	return invalid("auth.Options.Mode", string(text), wantMode)
}

// UnmarshalJSON reads options. Unknown fields and modes are errors.
func (o *Options) UnmarshalJSON(data []byte) error {
	type plain Options // without this method
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	err := decoder.Decode((*plain)(o))
	if named := (*leasing.InvalidError)(nil); err == nil || errors.As(err, &named) {
		return err
	}
	// The error names a field, a type, an offset or a mode, never a value of
	// another field.
	return invalid("auth.Options", notShown, "the JSON of auth.Options: "+err.Error())
}

// MarshalJSON writes the options without secrets, like Format, so the result can't be read back
// completely.
func (o Options) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(o.withoutSecrets()) }

// Format prints the fields that are set, without secrets, for all verbs of package fmt.
func (o Options) Format(f fmt.State, _ rune) { providerkit.Format(f, o.withoutSecrets()) }

// withoutSecrets returns the options without an address that may contain a password.
func (o Options) withoutSecrets() Options {
	if o.AuthorityHost != "" && validateAuthority("", o.AuthorityHost) != nil {
		o.AuthorityHost = string(notShown)
	}
	return o
}

// Format works like Options.Format.
func (s ServicePrincipalOptions) Format(f fmt.State, _ rune) { providerkit.Format(f, s) }

// MarshalJSON works like Options.MarshalJSON.
func (s ServicePrincipalOptions) MarshalJSON() ([]byte, error) { return providerkit.MarshalJSON(s) }
