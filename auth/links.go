package auth

import (
	"fmt"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// link is one of the ways to get tokens that a mode tries in turn.
type link struct {
	name string
	why  string // how the identity is proved, or why the link is left out
	make func() (azcore.TokenCredential, error)
	// optional: after any failure of this link, the next link is tried.
	optional bool
	secret   string                 // must not appear in an error
	source   azcore.TokenCredential // the result of make
}

func skippedLink(name, why string) link { return link{name: name, why: why} }

// links returns the links of a mode. The options must be complete.
func (o Options) links() ([]link, error) {
	switch o.Mode {
	case ManagedIdentity:
		return []link{o.managedIdentity()}, nil
	case WorkloadIdentity:
		return []link{o.workloadIdentity()}, nil
	case ServicePrincipal:
		return []link{o.servicePrincipal("service principal")}, nil
	case FederatedCredential:
		f := o.FederatedCredential
		return []link{o.federation("federated credential", f.TenantID, f.ClientID, f.TokenFilePath, "tokens from a function", f.Token)}, nil
	case Development:
		return o.developerTools(), nil
	}
	// azidentity.NewDefaultAzureCredential 1.15.0 can't make Auto's links (default_azure_credential.go): an incomplete
	// service principal is skipped (line 150), an identity comes from AZURE_CLIENT_ID alone (173), and only
	// AZURE_TOKEN_CREDENTIALS leaves developer tools out (109). It does not support GitHub Actions jobs, and treats a
	// metadata service that does not answer as a refusal.
	environment, err := o.fromEnvironment()
	if err != nil {
		return nil, err
	}
	links := []link{environment, o.workloadIfSet(), o.probedIdentity()}
	if stage, from := o.stage(); stage != elsewhere {
		return append(links, skippedLink("developer tools", from)), nil
	}
	return append(links, o.developerTools()...), nil
}

func (o Options) servicePrincipal(name string) link {
	s := o.ServicePrincipal
	l := link{name: name, secret: s.ClientSecret}
	with := "a secret"
	l.make = func() (azcore.TokenCredential, error) {
		client, disableDiscovery := o.clientOptions()
		return azidentity.NewClientSecretCredential(s.TenantID, s.ClientID, s.ClientSecret, &azidentity.ClientSecretCredentialOptions{
			ClientOptions: client, DisableInstanceDiscovery: disableDiscovery,
		})
	}
	if s.ClientSecret == "" {
		with, l.secret, l.make = "the certificate "+s.CertificatePath, s.CertificatePassword, o.clientCertificate
	}
	l.why = fmt.Sprintf("client %s of tenant %s, with %s", s.ClientID, s.TenantID, with)
	return l
}

// fromEnvironment returns the link of a service principal whose secret or certificate is in the
// environment. A missing tenant is an error: Auto must not continue with another identity.
func (o Options) fromEnvironment() (link, error) {
	const name = "environment"
	if os.Getenv(envClientSecret) == "" && os.Getenv(envCertificatePath) == "" {
		return skippedLink(name, envClientSecret+" and "+envCertificatePath+" are not set"), nil
	}
	if err := o.ServicePrincipal.complete(); err != nil {
		return skippedLink(name, err.Error()), err
	}
	return o.servicePrincipal(name), nil
}

func (o Options) workloadIdentity() link {
	w := o.WorkloadIdentity
	return o.federation("workload identity", w.TenantID, w.ClientID, w.TokenFilePath,
		"the tokens of a GitHub Actions job for "+o.audience(), o.gitHubToken())
}

// workloadIfSet returns the link of Auto's workload identity, if the options and the environment
// configure it completely.
func (o Options) workloadIfSet() link {
	const name = "workload identity"
	if o.WorkloadIdentity == (WorkloadIdentityOptions{}) && os.Getenv(envTokenFile) == "" && os.Getenv(envGitHubURL) == "" {
		return skippedLink(name, envTokenFile+" and "+envGitHubURL+" are not set")
	}
	if err := o.WorkloadIdentity.complete(); err != nil {
		return skippedLink(name, err.Error())
	}
	return o.workloadIdentity()
}

// federation returns a link that presents another issuer's token, from a file if path is set.
func (o Options) federation(name, tenantID, clientID, path, with string, token tokenFunc) link {
	if path != "" {
		with, token = "the token in "+path, fileToken(path)
	}
	return link{name: name, why: fmt.Sprintf("client %s of tenant %s, with %s", clientID, tenantID, with), make: func() (azcore.TokenCredential, error) {
		client, disableDiscovery := o.clientOptions()
		return azidentity.NewClientAssertionCredential(tenantID, clientID, notEmpty(token), &azidentity.ClientAssertionCredentialOptions{
			ClientOptions: client, DisableInstanceDiscovery: disableDiscovery,
		})
	}}
}

func (o Options) managedIdentity() link {
	id := o.ManagedIdentity.ClientID
	l := link{name: "managed identity", why: "system-assigned"}
	options := &azidentity.ManagedIdentityCredentialOptions{}
	if id != "" {
		l.why = "user-assigned, client " + id
		options.ID = azidentity.ClientID(id)
	}
	l.make = func() (azcore.TokenCredential, error) {
		options.ClientOptions, _ = o.clientOptions()
		options.PerRetryPolicies = o.Client.PerRetryPolicies // the host's own endpoint belongs to no authority
		options.Retry = o.Client.Retry                       // azidentity has its own retries for the metadata service
		made, err := azidentity.NewManagedIdentityCredential(options)
		if err != nil { // the host does not support identities by client ID
			return nil, invalid("auth.Options.ManagedIdentity.ClientID", id, "an identity that this host supports: "+err.Error())
		}
		return made, nil
	}
	return l
}

// developerTools returns links for the tools that azidentity supports, except Visual Studio and
// VS Code.
func (o Options) developerTools() []link {
	id := o.Development.TenantID
	why := "the signed-in user"
	if id != "" {
		why += " to tenant " + id
	}
	return []link{
		{name: "az", why: why, optional: true, make: func() (azcore.TokenCredential, error) {
			return azidentity.NewAzureCLICredential(&azidentity.AzureCLICredentialOptions{TenantID: id})
		}},
		{name: "azd", why: why, optional: true, make: func() (azcore.TokenCredential, error) {
			return azidentity.NewAzureDeveloperCLICredential(&azidentity.AzureDeveloperCLICredentialOptions{TenantID: id})
		}},
		{name: "Azure PowerShell", why: why, optional: true, make: func() (azcore.TokenCredential, error) {
			return azidentity.NewAzurePowerShellCredential(&azidentity.AzurePowerShellCredentialOptions{TenantID: id})
		}},
	}
}
