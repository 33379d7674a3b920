package bloblease

import (
	"cmp"
	"fmt"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/auth"
)

// schemes are those of URLs, and what they stand for.
var schemes = map[string]string{"azblob": "https", "azblob+https": "https", "azblob+http": "http"}

// suffixes are the hosts of accounts by cloud (learn.microsoft.com/azure/storage/common/storage-powershell-independent-clouds).
var suffixes = map[string]string{
	auth.AzurePublic:     ".blob.core.windows.net",
	auth.AzureGovernment: ".blob.core.usgovcloudapi.net",
	auth.AzureChina:      ".blob.core.chinacloudapi.cn",
}

// sasParameters are those of account, service and user delegation SAS
// (learn.microsoft.com/rest/api/storageservices/delegate-access-with-shared-access-signature).
var sasParameters = []string{
	"sv", "ss", "srt", "sp", "st", "se", "sip", "spr", "ses", "sr", "si", "sdd", "sig",
	"skoid", "sktid", "skt", "ske", "sks", "skv", "saoid", "suoid", "scid", "skdutid", "sduoid",
}

// readURL puts what the URL says into the other fields.
func (o *Options) readURL() error {
	u, err := providerkit.ParseURL(o.URL, "azblob", "azblob+https", "azblob+http")
	if err != nil {
		return err
	}
	if o.hasIdentity() || o.Container != "" {
		return providerkit.BadURL("no Container, Auth, Credential, AccountKey and SAS beside it: the URL has them; or AccountURL")
	}
	o.URL = ""
	if err := o.readQuery(u.Query); err != nil {
		return err
	}
	if o.ConnectionString == "" {
		return o.readAddress(u, u.Query.Get("cloud"))
	}
	if u.Host != "" || u.User != "" || u.Scheme != "azblob" {
		return providerkit.BadURL("azblob:///container?connection_string_env=NAME: the connection string has the account")
	}
	o.Container = strings.TrimPrefix(u.Path, "/")
	return nil
}

// readAddress sets AccountURL, Container and AccountKey.
func (o *Options) readAddress(u providerkit.URL, cloud string) error {
	host, key := u.Host, u.Password.Reveal()
	if host == "" || !hostname.MatchString(host) || u.User != "" && key == "" {
		return providerkit.BadURL("azblob://account/container, or azblob://account:key@host/container with a key's / written as %2F, + as %2B and = as %3D")
	}
	if accountName.MatchString(host) && schemes[u.Scheme] == "https" && host != "localhost" {
		host += suffixes[cmp.Or(cloud, auth.AzurePublic)]
	} else if cloud != "" && o.Auth.IsZero() {
		return providerkit.BadParameter("cloud", cloud, "nothing: the host says where the account is")
	}
	at, err := newEndpoint(schemes[u.Scheme], host, u.Path)
	if err != nil {
		return providerkit.BadURL(err.Error())
	}
	if at.container == "" {
		return providerkit.BadURL("/container behind the account")
	}
	if u.User != "" && u.User != at.account {
		return providerkit.BadURL("account:key@ before the account's host")
	}
	o.AccountURL, o.Container, o.AccountKey = at.service(), at.container, key
	return nil
}

var (
	accountName = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
	variable    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	hostname    = regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`)
)

// readQuery sets the fields that parameters name.
func (o *Options) readQuery(query url.Values) error {
	sas, rest := url.Values{}, url.Values{}
	for key, values := range query {
		switch {
		case slices.Contains(sasParameters, key):
			sas[key] = values
		case !slices.Contains(ownParameters, key):
			rest[key] = values
		case len(values) != 1:
			return providerkit.BadParameter(key, strings.Join(values, " and "), "one value")
		}
	}
	o.SAS = sas.Encode()
	if rest.Has("container") {
		return providerkit.BadParameter("container", rest.Get("container"), "it behind the account")
	}
	if rest.Has("client_secret") {
		return providerkit.BadParameter("client_secret", "a secret", "auth=Environment, and the secret in AZURE_CLIENT_SECRET")
	}
	rest, err := providerkit.SetQuery(o, rest)
	if err == nil {
		err = providerkit.UnknownParameter(o, rest)
	}
	if cloud := query.Get("cloud"); err == nil && query.Has("cloud") && suffixes[cloud] == "" {
		err = providerkit.BadParameter("cloud", cloud, "AzurePublic, AzureGovernment or AzureChina")
	}
	if err != nil {
		return err
	}
	if name := query.Get("connection_string_env"); query.Has("connection_string_env") {
		if o.ConnectionString = os.Getenv(name); o.ConnectionString == "" {
			value := any(name)
			if !variable.MatchString(name) { // perhaps the string itself
				value = providerkit.NotShown
			}
			return invalid("URL parameter connection_string_env", value, "the name of a variable that is set to a connection string")
		}
	}
	return o.readAuth(query)
}

// authParameters are read by readAuth.
var (
	authParameters = []string{"auth", "client_id", "tenant_id", "token_file_path", "certificate_path"}
	ownParameters  = append(slices.Clone(authParameters), "cloud", "connection_string_env")
)

// readAuth sets Auth.
func (o *Options) readAuth(query url.Values) (err error) {
	name := query.Get("auth")
	if name == "" {
		for _, key := range authParameters {
			if query.Has(key) {
				return providerkit.BadParameter(key, query.Get(key), "auth=... beside it, which it is for")
			}
		}
		return nil
	}
	if strings.EqualFold(name, "Environment") {
		o.Auth, err = auth.FromEnvironment()
	} else if o.Auth.Mode.UnmarshalText([]byte(name)) != nil {
		return providerkit.BadParameter("auth", name, "Environment, Auto, ManagedIdentity, WorkloadIdentity, ServicePrincipal, FederatedCredential or Development")
	}
	if err != nil {
		return err
	}
	if query.Has("cloud") {
		o.Auth.Cloud = query.Get("cloud")
	}
	for _, key := range authParameters[1:] {
		if !query.Has(key) {
			continue
		}
		field := o.authField(key)
		if field == nil {
			return providerkit.BadParameter(key, query.Get(key), fmt.Sprintf("nothing with auth=%s", name))
		}
		*field = query.Get(key)
	}
	return nil
}

// authField is where a parameter goes, by mode.
func (o *Options) authField(key string) *string {
	a := &o.Auth
	return map[string]*string{
		"ManagedIdentity client_id":           &a.ManagedIdentity.ClientID,
		"Auto client_id":                      &a.ManagedIdentity.ClientID,
		"WorkloadIdentity client_id":          &a.WorkloadIdentity.ClientID,
		"WorkloadIdentity tenant_id":          &a.WorkloadIdentity.TenantID,
		"WorkloadIdentity token_file_path":    &a.WorkloadIdentity.TokenFilePath,
		"ServicePrincipal client_id":          &a.ServicePrincipal.ClientID,
		"ServicePrincipal tenant_id":          &a.ServicePrincipal.TenantID,
		"ServicePrincipal certificate_path":   &a.ServicePrincipal.CertificatePath,
		"FederatedCredential client_id":       &a.FederatedCredential.ClientID,
		"FederatedCredential tenant_id":       &a.FederatedCredential.TenantID,
		"FederatedCredential token_file_path": &a.FederatedCredential.TokenFilePath,
		"Development tenant_id":               &a.Development.TenantID,
	}[string(a.Mode)+" "+key]
}
