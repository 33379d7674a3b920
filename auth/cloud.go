package auth

import (
	"cmp"
	"net/url"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// The values of Options.Cloud.
const (
	AzurePublic     = "AzurePublic"
	AzureGovernment = "AzureGovernment"
	AzureChina      = "AzureChina"
)

// clouds has each cloud's configuration, and the audience that tokens of other
// issuers must name
// (learn.microsoft.com/entra/workload-id/workload-identity-federation-considerations).
var clouds = map[string]struct {
	configuration cloud.Configuration
	audience      string
}{
	AzurePublic:     {cloud.AzurePublic, "api://AzureADTokenExchange"},
	AzureGovernment: {cloud.AzureGovernment, "api://AzureADTokenExchangeUSGov"},
	AzureChina:      {cloud.AzureChina, "api://AzureADTokenExchangeChina"},
}

// CloudConfiguration combines Cloud, AuthorityHost and Client.Cloud, for the
// clients of Azure's services that use the credential.
func (o Options) CloudConfiguration() (cloud.Configuration, error) {
	own := o.Client.Cloud
	switch isSet := own.ActiveDirectoryAuthorityHost != "" || len(own.Services) > 0; {
	case isSet && (o.Cloud != "" || o.AuthorityHost != ""):
		return cloud.Configuration{}, invalid("auth.Options.Client.Cloud", own.ActiveDirectoryAuthorityHost, "no value with a Cloud or an AuthorityHost")
	case isSet:
		return own, validateAuthority("auth.Options.Client.Cloud.ActiveDirectoryAuthorityHost", own.ActiveDirectoryAuthorityHost)
	}
	named, found := clouds[cmp.Or(o.Cloud, AzurePublic)]
	if !found {
		return cloud.Configuration{}, invalid("auth.Options.Cloud", o.Cloud, "AzurePublic, AzureGovernment or AzureChina")
	}
	host, field := o.AuthorityHost, "auth.Options.AuthorityHost"
	if host == "" && o.Cloud == "" {
		host, field = os.Getenv(envAuthorityHost), envAuthorityHost
	}
	if host == "" {
		return named.configuration, nil
	}
	named.configuration.ActiveDirectoryAuthorityHost = host
	return named.configuration, validateAuthority(field, host)
}

// validateAuthority refuses an address with user information, because addresses are printed.
func validateAuthority(field, host string) error {
	u, err := url.Parse(host)
	if err != nil || u.Scheme != "https" || u.Host == "" || u.User != nil || strings.ContainsAny(host, "?#") {
		return invalid(field, notShown, "https://host, or https://host:port")
	}
	return nil
}

// audience returns the audience to request for another issuer's token.
func (o Options) audience() string {
	return cmp.Or(o.WorkloadIdentity.Audience, clouds[cmp.Or(o.Cloud, AzurePublic)].audience)
}

// clientOptions returns the options of clients that send requests to Entra ID.
// Discovery is disabled for a host that belongs to no known cloud: discovery sends a
// request about the host to Microsoft's public cloud, which a disconnected or private
// cloud can't reach.
func (o Options) clientOptions() (client policy.ClientOptions, disableDiscovery bool) {
	client = o.Client
	client.Cloud, _ = o.CloudConfiguration() // complete has validated the options
	client.Retry, client.Transport = retries(client.Retry), withoutRedirects(client.Transport)
	client.PerRetryPolicies = append(slices.Clip(client.PerRetryPolicies), ownAuthority{client.Cloud.ActiveDirectoryAuthorityHost})
	disableDiscovery = true
	for _, known := range clouds {
		if strings.TrimSuffix(client.Cloud.ActiveDirectoryAuthorityHost, "/") == strings.TrimSuffix(known.configuration.ActiveDirectoryAuthorityHost, "/") {
			disableDiscovery = false
		}
	}
	return client, disableDiscovery
}

// retries returns the given options or, if they are zero, options for a single attempt. A request
// for a token is part of a request to a service, which package leasing retries. azcore's three
// retries would take 9 s of that request, every 30 s while Entra ID is unreachable, although the
// cached token is still valid.
func retries(set policy.RetryOptions) policy.RetryOptions {
	if reflect.ValueOf(set).IsZero() {
		return policy.RetryOptions{MaxRetries: -1}
	}
	return set
}
