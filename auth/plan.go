package auth

import (
	"fmt"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// link is one way to get tokens, out of those that a mode tries in turn.
type link struct {
	name string
	why  string // with what; or why not
	make func() (azcore.TokenCredential, error)
	// optional: the next link is asked whatever its failure is.
	optional bool
	// secret must not be in an error.
	secret string
}

func leftOut(name, why string) link { return link{name: name, why: why} }

// plan is what a mode tries. The options are complete.
func (o Options) plan() ([]link, error) {
	switch o.Mode {
	case ManagedIdentity:
		return []link{{name: "managed identity", why: o.identityName(), make: o.managedIdentity}}, nil
	case WorkloadIdentity:
		return []link{o.workloadIdentity()}, nil
	case ServicePrincipal:
		return []link{o.servicePrincipal("service principal")}, nil
	case FederatedCredential:
		return []link{o.federated()}, nil
	case Development:
		return o.developerTools(), nil
	}
	environment, err := o.fromEnvironment()
	if err != nil {
		return nil, err
	}
	return append([]link{environment, o.workloadIfSet(), o.probedIdentity()}, o.toolsUnlessDeployed()...), nil
}

func (o Options) servicePrincipal(name string) link {
	s := o.ServicePrincipal
	who := fmt.Sprintf("client %s of tenant %s, with ", s.ClientID, s.TenantID)
	if s.ClientSecret != "" {
		return link{name: name, why: who + "a secret", make: o.clientSecret, secret: s.ClientSecret}
	}
	return link{name: name, why: who + "the certificate " + s.CertificatePath, make: o.clientCertificate, secret: s.CertificatePassword}
}

// fromEnvironment is a service principal whose secret or certificate is in the
// environment. One that lacks its tenant is a mistake, and no reason to go on as
// somebody else.
func (o Options) fromEnvironment() (link, error) {
	const name = "environment"
	if os.Getenv(envClientSecret) == "" && os.Getenv(envCertificatePath) == "" {
		return leftOut(name, envClientSecret+" and "+envCertificatePath+" are not set"), nil
	}
	if err := o.ServicePrincipal.complete(); err != nil {
		return leftOut(name, err.Error()), err
	}
	return o.servicePrincipal(name), nil
}

func (o Options) workloadIdentity() link {
	w := o.WorkloadIdentity
	why := fmt.Sprintf("client %s of tenant %s, with ", w.ClientID, w.TenantID)
	token := fileToken(w.TokenFilePath)
	if w.TokenFilePath != "" {
		why += "the token in " + w.TokenFilePath
	} else {
		why += "the tokens of a GitHub Actions job for " + o.audience()
		token = o.gitHubToken()
	}
	return link{name: "workload identity", why: why, make: func() (azcore.TokenCredential, error) {
		return o.assertion(w.TenantID, w.ClientID, token)
	}}
}

// workloadIfSet is for Auto: a workload identity if the options or the
// environment have a whole one.
func (o Options) workloadIfSet() link {
	const name = "workload identity"
	if o.WorkloadIdentity == (WorkloadIdentityOptions{}) && os.Getenv(envTokenFile) == "" && os.Getenv(envGitHubURL) == "" {
		return leftOut(name, envTokenFile+" and "+envGitHubURL+" are not set")
	}
	if err := o.WorkloadIdentity.complete(); err != nil {
		return leftOut(name, err.Error())
	}
	return o.workloadIdentity()
}

func (o Options) federated() link {
	f := o.FederatedCredential
	why := fmt.Sprintf("client %s of tenant %s, with ", f.ClientID, f.TenantID)
	token := f.Token
	if token == nil {
		why += "the token in " + f.TokenFilePath
		token = fileToken(f.TokenFilePath)
	} else {
		why += "the tokens of a function"
	}
	return link{name: "federated credential", why: why, make: func() (azcore.TokenCredential, error) {
		return o.assertion(f.TenantID, f.ClientID, notEmpty(token))
	}}
}

func (o Options) identityName() string {
	if o.ManagedIdentity.ClientID == "" {
		return "system-assigned"
	}
	return "user-assigned, client " + o.ManagedIdentity.ClientID
}

// developerTools are those of azidentity. Visual Studio's and VS Code's sign-in
// are not among them.
func (o Options) developerTools() []link {
	id := o.Development.TenantID
	who := "whoever is signed in"
	if id != "" {
		who += " to tenant " + id
	}
	return []link{
		{name: "az", why: who, optional: true, make: func() (azcore.TokenCredential, error) {
			return azidentity.NewAzureCLICredential(&azidentity.AzureCLICredentialOptions{TenantID: id})
		}},
		{name: "azd", why: who, optional: true, make: func() (azcore.TokenCredential, error) {
			return azidentity.NewAzureDeveloperCLICredential(&azidentity.AzureDeveloperCLICredentialOptions{TenantID: id})
		}},
		{name: "Azure PowerShell", why: who, optional: true, make: func() (azcore.TokenCredential, error) {
			return azidentity.NewAzurePowerShellCredential(&azidentity.AzurePowerShellCredentialOptions{TenantID: id})
		}},
	}
}

func (o Options) toolsUnlessDeployed() []link {
	if s := o.stage(); s.production || s.staging {
		return []link{leftOut("developer tools", s.from)}
	}
	return o.developerTools()
}
