package auth

import (
	"net/url"
	"os"
	"reflect"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// The clouds that Options.Cloud names.
const (
	AzurePublic     = "AzurePublic"
	AzureGovernment = "AzureGovernment"
	AzureChina      = "AzureChina"
)

// national is what differs between clouds.
type national struct {
	configuration cloud.Configuration
	// audience is what tokens of other issuers have to be for
	// (learn.microsoft.com/entra/workload-id/workload-identity-federation-considerations).
	audience string
}

func clouds() map[string]national {
	return map[string]national{
		AzurePublic:     {cloud.AzurePublic, "api://AzureADTokenExchange"},
		AzureGovernment: {cloud.AzureGovernment, "api://AzureADTokenExchangeUSGov"},
		AzureChina:      {cloud.AzureChina, "api://AzureADTokenExchangeChina"},
	}
}

// CloudConfiguration is Cloud, AuthorityHost and Client.Cloud in one: for the
// clients of Azure's services that are to use the credential.
func (o Options) CloudConfiguration() (cloud.Configuration, error) {
	own := o.Client.Cloud.ActiveDirectoryAuthorityHost != "" || len(o.Client.Cloud.Services) > 0
	if own && (o.Cloud != "" || o.AuthorityHost != "") {
		return cloud.Configuration{}, invalid("auth.Options.Client.Cloud", o.Client.Cloud.ActiveDirectoryAuthorityHost, "nothing where Cloud or AuthorityHost is set")
	}
	if own {
		return o.Client.Cloud, validateAuthority("auth.Options.Client.Cloud.ActiveDirectoryAuthorityHost", o.Client.Cloud.ActiveDirectoryAuthorityHost)
	}
	named, found := clouds()[o.cloudName()]
	if !found {
		return cloud.Configuration{}, invalid("auth.Options.Cloud", o.Cloud, "AzurePublic, AzureGovernment or AzureChina")
	}
	configuration := named.configuration
	host, field := o.AuthorityHost, "auth.Options.AuthorityHost"
	if host == "" && o.Cloud == "" {
		host, field = os.Getenv(envAuthorityHost), envAuthorityHost
	}
	if host == "" {
		return configuration, nil
	}
	configuration.ActiveDirectoryAuthorityHost = host
	return configuration, validateAuthority(field, host)
}

func (o Options) cloudName() string {
	if o.Cloud == "" {
		return AzurePublic
	}
	return o.Cloud
}

// validateAuthority wants no password in an address that is shown.
func validateAuthority(field, host string) error {
	u, err := url.Parse(host)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(host, "?#") {
		return invalid(field, notShown, "https://host, or https://host:port")
	}
	return nil
}

// isNational reports whether host is one of the clouds' own. About any other,
// Microsoft's public cloud would be asked whether it is one of its hosts, which
// would be the end of a disconnected or a private cloud: azidentity's
// DisableInstanceDiscovery is for those.
func isNational(host string) bool {
	for _, known := range clouds() {
		if strings.TrimSuffix(host, "/") == strings.TrimSuffix(known.configuration.ActiveDirectoryAuthorityHost, "/") {
			return true
		}
	}
	return false
}

// audience is what a token of another issuer is asked for.
func (o Options) audience() string {
	if o.WorkloadIdentity.Audience != "" {
		return o.WorkloadIdentity.Audience
	}
	return clouds()[o.cloudName()].audience
}

// clientOptions are for those who ask Entra ID.
func (o Options) clientOptions() (client policy.ClientOptions, disableDiscovery bool, err error) {
	configuration, err := o.CloudConfiguration()
	client = o.Client
	client.Cloud = configuration
	client.Retry = retries(client.Retry)
	return client, !isNational(configuration.ActiveDirectoryAuthorityHost), err
}

// retries are one attempt, unless they are set. A request for a token is part of
// a request to a service, which package leasing repeats. azcore's three
// retries would take 9 s out of it, every 30 s while Entra ID is away, though
// the token at hand is still good.
func retries(set policy.RetryOptions) policy.RetryOptions {
	if reflect.ValueOf(set).IsZero() {
		return policy.RetryOptions{MaxRetries: -1}
	}
	return set
}
