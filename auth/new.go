package auth

import (
	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
)

// New makes the credential that the options describe. It sends nothing; with a
// certificate it reads the file. Options that can't work are a
// *leasing.InvalidError that names the field.
//
// The credential is safe for concurrent use. It has nothing to close. Its errors
// are *Error.
func New(o Options) (azcore.TokenCredential, error) {
	o, err := o.complete()
	if err != nil {
		return nil, err
	}
	links, err := o.plan()
	if err != nil {
		return nil, err
	}
	source, err := build(links)
	if err != nil {
		return nil, err
	}
	return &credential{mode: o.Mode, source: source}, nil
}

// build makes the links that are used, and of several a chain. The first that
// has a token is asked from then on.
func build(links []link) (azcore.TokenCredential, error) {
	var sources []azcore.TokenCredential
	for _, l := range links {
		if l.make == nil {
			continue
		}
		source, err := l.make()
		if err != nil {
			return nil, err
		}
		sources = append(sources, &linked{name: l.name, source: source, optional: l.optional, safe: hiding(l.secret)})
	}
	if len(sources) == 1 {
		return sources[0], nil
	}
	return azidentity.NewChainedTokenCredential(sources, nil)
}

func (o Options) clientSecret() (azcore.TokenCredential, error) {
	client, disableDiscovery, err := o.clientOptions()
	if err != nil {
		return nil, err
	}
	s := o.ServicePrincipal
	return azidentity.NewClientSecretCredential(s.TenantID, s.ClientID, s.ClientSecret, &azidentity.ClientSecretCredentialOptions{
		ClientOptions: client, DisableInstanceDiscovery: disableDiscovery,
	})
}

func (o Options) clientCertificate() (azcore.TokenCredential, error) {
	client, disableDiscovery, err := o.clientOptions()
	if err != nil {
		return nil, err
	}
	s := o.ServicePrincipal
	certificates, key, err := readCertificate(s.CertificatePath, s.CertificatePassword)
	if err != nil {
		return nil, err
	}
	made, err := azidentity.NewClientCertificateCredential(s.TenantID, s.ClientID, certificates, key, &azidentity.ClientCertificateCredentialOptions{
		ClientOptions: client, DisableInstanceDiscovery: disableDiscovery, SendCertificateChain: s.SendCertificateChain,
	})
	if err != nil {
		return nil, invalid(fieldCertificate, s.CertificatePath, "a certificate with an RSA key: "+err.Error())
	}
	return made, nil
}

func (o Options) managedIdentity() (azcore.TokenCredential, error) {
	client, _, err := o.clientOptions()
	if err != nil {
		return nil, err
	}
	client.Retry = o.Client.Retry // azidentity knows better when the metadata service wants to be asked again
	options := &azidentity.ManagedIdentityCredentialOptions{ClientOptions: client}
	if o.ManagedIdentity.ClientID != "" {
		options.ID = azidentity.ClientID(o.ManagedIdentity.ClientID)
	}
	made, err := azidentity.NewManagedIdentityCredential(options)
	if err != nil { // the host does not know identities by their client ID
		return nil, invalid("auth.Options.ManagedIdentity.ClientID", o.ManagedIdentity.ClientID, "what this host supports: "+err.Error())
	}
	return made, nil
}

// assertion is a credential that shows another issuer's token.
func (o Options) assertion(tenantID, clientID string, token tokenFunc) (azcore.TokenCredential, error) {
	client, disableDiscovery, err := o.clientOptions()
	if err != nil {
		return nil, err
	}
	return azidentity.NewClientAssertionCredential(tenantID, clientID, token, &azidentity.ClientAssertionCredentialOptions{
		ClientOptions: client, DisableInstanceDiscovery: disableDiscovery,
	})
}
