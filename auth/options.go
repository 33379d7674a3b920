package auth

import (
	"context"
	"reflect"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// Mode names a way to get tokens from Microsoft Entra ID.
type Mode string

// The modes. What each reads, and from where, is in the table of the package's
// documentation.
const (
	// Auto tries what the environment offers, in a fixed order: see Explain.
	Auto Mode = "Auto"
	// ManagedIdentity is the identity that Azure gives a machine, an app
	// service, a function, a container app, a cluster's node.
	ManagedIdentity Mode = "ManagedIdentity"
	// WorkloadIdentity is a Kubernetes service account, or a GitHub Actions job,
	// that an application or a managed identity in Entra ID trusts.
	WorkloadIdentity Mode = "WorkloadIdentity"
	// ServicePrincipal is an application with a secret or a certificate.
	ServicePrincipal Mode = "ServicePrincipal"
	// FederatedCredential is an application that trusts the tokens of some other
	// issuer, which a file or a function provides.
	FederatedCredential Mode = "FederatedCredential"
	// Development is whoever is signed in to the tools on a developer's
	// machine: az, azd, Azure PowerShell, the first that has a token. It is
	// refused where the environment says production.
	Development Mode = "Development"
)

// Options say how to get tokens. The zero Options name no mode: see IsZero.
//
// In JSON the fields have the names in their tags. Fields that are not known,
// and settings of a mode other than Mode, are errors. Printing options, logging
// them, and writing them as JSON shows no secret.
type Options struct {
	// Mode is required.
	Mode Mode `json:"Mode"`

	// ManagedIdentity is for its mode, and for Auto.
	ManagedIdentity ManagedIdentityOptions `json:"ManagedIdentity"`
	// WorkloadIdentity is for its mode, and for Auto.
	WorkloadIdentity WorkloadIdentityOptions `json:"WorkloadIdentity"`
	// ServicePrincipal is for its mode. Auto takes it from the environment.
	ServicePrincipal ServicePrincipalOptions `json:"ServicePrincipal"`
	// FederatedCredential is for its mode.
	FederatedCredential FederatedCredentialOptions `json:"FederatedCredential"`
	// Development is for its mode, and for Auto.
	Development DevelopmentOptions `json:"Development"`

	// Cloud is AzurePublic, AzureGovernment or AzureChina. Default AzurePublic.
	Cloud string `json:"Cloud"`
	// AuthorityHost is where tokens come from if it is not the cloud's own
	// place, an address that begins with https://. Default: the variable
	// AZURE_AUTHORITY_HOST, unless Cloud is set, else the cloud's. A host that
	// is none of these clouds' is trusted as it is: nobody is asked about it.
	// Not for ManagedIdentity and Development, which ask no authority.
	AuthorityHost string `json:"AuthorityHost"`
	// Environment says where the program runs, which Auto and Development want
	// to know: "production" (or "prod"), "staging" (or "stage"), in upper or
	// lower case, or any other word. Default: what the variables of
	// EnvironmentVariables say, of two that differ the stricter.
	Environment string `json:"Environment"`
	// Client is for requests for tokens: transport, retries, logging. Without
	// Retry there is one attempt, but for managed identities, where azidentity
	// has its own. Its Cloud is for clouds that Cloud can't name; only one of
	// the two, and of it and AuthorityHost, may be set.
	Client policy.ClientOptions `json:"-"`
}

// ManagedIdentityOptions are for mode ManagedIdentity.
type ManagedIdentityOptions struct {
	// ClientID is of a user-assigned identity. Default: the system-assigned
	// one. In Auto the default is the variable AZURE_CLIENT_ID.
	ClientID string `json:"ClientId"`
}

// WorkloadIdentityOptions are for mode WorkloadIdentity. Where neither
// TokenFilePath nor its variable is set, and those of a GitHub Actions job with
// the permission "id-token: write" are, the job's tokens are used.
type WorkloadIdentityOptions struct {
	// TenantID is the directory of the identity. Default: AZURE_TENANT_ID.
	TenantID string `json:"TenantId"`
	// ClientID is of the application or managed identity. Default: AZURE_CLIENT_ID.
	ClientID string `json:"ClientId"`
	// TokenFilePath is the file with the service account's token, which
	// Kubernetes renews. Default: AZURE_FEDERATED_TOKEN_FILE.
	TokenFilePath string `json:"TokenFilePath"`
	// Audience is what a token is asked for in a GitHub Actions job; it has to
	// be the one in the identity's federated credential. Default: the cloud's,
	// api://AzureADTokenExchange in AzurePublic.
	Audience string `json:"Audience"`
}

// ServicePrincipalOptions are for mode ServicePrincipal. One of ClientSecret and
// CertificatePath is required; where both are empty their variables are looked at.
type ServicePrincipalOptions struct {
	// TenantID is the directory of the application. Default: AZURE_TENANT_ID.
	TenantID string `json:"TenantId"`
	// ClientID is of the application. Default: AZURE_CLIENT_ID.
	ClientID string `json:"ClientId"`
	// ClientSecret is one of the application's secrets. Default: AZURE_CLIENT_SECRET.
	ClientSecret string `json:"ClientSecret"`
	// CertificatePath is a file with a certificate and its private key, as PEM
	// or PKCS#12. Default: AZURE_CLIENT_CERTIFICATE_PATH. It is read by New.
	CertificatePath string `json:"CertificatePath"`
	// CertificatePassword is of a PKCS#12 file. Default, if CertificatePath is
	// empty too: AZURE_CLIENT_CERTIFICATE_PASSWORD.
	CertificatePassword string `json:"CertificatePassword"`
	// SendCertificateChain lets Entra ID check the certificate by subject and
	// issuer, so that a renewed certificate needs no registration.
	SendCertificateChain bool `json:"SendCertificateChain"`
}

// FederatedCredentialOptions are for mode FederatedCredential. One of
// TokenFilePath and Token is required.
type FederatedCredentialOptions struct {
	// TenantID is the directory of the application. Default: AZURE_TENANT_ID.
	TenantID string `json:"TenantId"`
	// ClientID is of the application. Default: AZURE_CLIENT_ID.
	ClientID string `json:"ClientId"`
	// TokenFilePath is a file with the other issuer's token. It is read each
	// time that Entra ID is asked for a token.
	TokenFilePath string `json:"TokenFilePath"`
	// Token returns the other issuer's token. It is called each time that Entra
	// ID is asked for a token, also by several goroutines at once.
	Token func(context.Context) (string, error) `json:"-"`
}

// DevelopmentOptions are for mode Development.
type DevelopmentOptions struct {
	// TenantID is a directory. Default: the one that the tool is signed in to.
	TenantID string `json:"TenantId"`
}

// IsZero reports whether nothing is set: the options name no mode.
func (o Options) IsZero() bool { return reflect.ValueOf(o).IsZero() }
