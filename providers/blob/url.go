package bloblease

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/distributedleasing/leasing/auth"

	"github.com/distributedleasing/leasing/abstractions"
)

func badURL(want string) error {
	return &abstractions.InvalidError{Field: "Options.URL", Value: notShown, Want: want}
}

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

// withURL puts what a URL says into the other fields. It is taken apart here, and
// not by net/url, which quotes it in its errors.
func (o Options) withURL() (Options, error) {
	scheme, rest, found := strings.Cut(o.URL, "://")
	if !found || schemes[scheme] == "" {
		return o, badURL("azblob:// or azblob+http://")
	}
	rest, rawQuery, _ := strings.Cut(rest, "?")
	query, err := url.ParseQuery(rawQuery)
	if err != nil || strings.Contains(rest, "#") || !pairs(rawQuery) {
		return o, badURL("name=value&... after the ?, no fragment, and a key with / written as %2F, + as %2B and = as %3D")
	}
	if given := o.identities(); len(given) > 0 || o.Container != "" {
		return o, &abstractions.InvalidError{Field: "Options.URL", Value: notShown, Want: "no Container, Auth, Credential, AccountKey and SAS beside it: the URL has them; or AccountURL"}
	}
	authority, path, _ := strings.Cut(rest, "/")
	o.URL = ""
	if o, err = o.withQuery(query); err != nil {
		return o, err
	}
	if o.ConnectionString != "" {
		if authority != "" || schemes[scheme] != "https" || scheme != "azblob" {
			return o, badURL("azblob:///container?connection_string_env=NAME: the connection string has the account")
		}
		o.Container = path
		return o, nil
	}
	return o.withAddress(schemes[scheme], authority, "/"+path, query.Get("cloud"))
}

// pairs reports whether a query could not be the end of a key.
func pairs(rawQuery string) bool {
	for pair := range strings.SplitSeq(rawQuery, "&") {
		if pair != "" && !strings.Contains(pair, "=") || strings.ContainsAny(pair, "@#") {
			return false
		}
	}
	return true
}

// withAddress sets AccountURL, Container and AccountKey.
func (o Options) withAddress(scheme, authority, path, cloud string) (Options, error) {
	var user, key string
	if i := strings.LastIndexByte(authority, '@'); i >= 0 {
		var err error
		if user, key, err = credentials(authority[:i]); err != nil {
			return o, err
		}
		authority = authority[i+1:]
	}
	if authority == "" || !hostname.MatchString(authority) {
		return o, badURL("an account or a host after //, and a key with / written as %2F")
	}
	if suffix := suffixes[cloudOr(cloud)]; accountName.MatchString(authority) && scheme == "https" && authority != "localhost" {
		authority += suffix
	} else if cloud != "" && o.Auth.IsZero() {
		return o, &abstractions.InvalidError{Field: "Options.URL parameter cloud", Value: cloud, Want: "nothing: the host says where the account is"}
	}
	e, err := newEndpoint(scheme, authority, path)
	if err != nil {
		return o, badURL(errPath.Want)
	}
	if e.container == "" {
		return o, badURL("/container behind the account")
	}
	if key != "" && user != "" && user != e.account {
		return o, badURL("account:key@ before the account's host")
	}
	o.AccountURL, o.Container, o.AccountKey = e.service(), e.container, key
	return o, nil
}

var (
	accountName = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
	variable    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	hostname    = regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`)
)

func cloudOr(cloud string) string {
	if cloud == "" {
		return auth.AzurePublic
	}
	return cloud
}

// credentials reads what stands before the @.
func credentials(text string) (user, key string, err error) {
	user, rawKey, found := strings.Cut(text, ":")
	key, err = url.PathUnescape(rawKey)
	if err != nil || !found || key == "" {
		return "", "", badURL("account:key@ before the host, with the key's / written as %2F, + as %2B and = as %3D")
	}
	return user, key, nil
}

func badParameter(key, value, want string) error {
	return &abstractions.InvalidError{Field: "Options.URL parameter " + key, Value: value, Want: want}
}

// elsewhere are parameters that hold secrets, and where those go.
var elsewhere = map[string]string{
	"account_key":       "account:key@ before the host",
	"sas":               "the parameters of the SAS themselves",
	"connection_string": "connection_string_env, the name of a variable",
	"client_secret":     "auth=Environment, and the secret in AZURE_CLIENT_SECRET",
}

// withQuery sets the fields that parameters name.
func (o Options) withQuery(query url.Values) (Options, error) {
	var sas url.Values
	for _, key := range slices.Sorted(maps.Keys(query)) {
		if slices.Contains(sasParameters, key) {
			if sas == nil {
				sas = url.Values{}
			}
			sas[key] = query[key]
			continue
		}
		if want, found := elsewhere[key]; found {
			return o, badParameter(key, notShown, want)
		}
		if len(query[key]) != 1 {
			return o, badParameter(key, notShown, "one value")
		}
		if err := o.set(key, query.Get(key)); err != nil {
			return o, err
		}
	}
	o.SAS = sas.Encode()
	return o, o.withAuth(query)
}

// authParameters are read by withAuth.
var authParameters = []string{"auth", "client_id", "tenant_id", "token_file_path", "certificate_path"}

func (o *Options) set(key, value string) (err error) {
	want := "true or false"
	switch key {
	case "prefix":
		o.Prefix = value
	case "create_container":
		o.CreateContainer, err = strconv.ParseBool(value)
	case "infinite":
		o.Infinite, err = strconv.ParseBool(value)
	case "retention":
		want, err = `a duration such as "90m", or "forever"`, (*duration)(&o.Retention).UnmarshalText([]byte(value))
	case "timeout":
		want, err = `a duration such as "5s"`, (*duration)(&o.Timeout).UnmarshalText([]byte(value))
	case "connection_string_env":
		if o.ConnectionString = os.Getenv(value); o.ConnectionString == "" {
			if !variable.MatchString(value) { // perhaps the string itself
				value = notShown
			}
			return badParameter(key, value, "the name of a variable that is set to a connection string")
		}
	case "cloud":
		if suffixes[value] == "" {
			return badParameter(key, value, "AzurePublic, AzureGovernment or AzureChina")
		}
	default:
		if !slices.Contains(authParameters, key) {
			return &abstractions.InvalidError{Field: "Options.URL parameter", Value: key, Want: "one of those that Options.URL documents"}
		}
	}
	if err != nil {
		return badParameter(key, value, want)
	}
	return nil
}

// withAuth sets Auth.
func (o *Options) withAuth(query url.Values) (err error) {
	name := query.Get("auth")
	if name == "" {
		for _, key := range authParameters {
			if query.Has(key) {
				return badParameter(key, query.Get(key), "auth=... beside it, which it is for")
			}
		}
		return nil
	}
	if strings.EqualFold(name, "Environment") {
		o.Auth, err = auth.FromEnvironment()
	} else if o.Auth.Mode.UnmarshalText([]byte(name)) != nil {
		return badParameter("auth", name, "Environment, Auto, ManagedIdentity, WorkloadIdentity, ServicePrincipal, FederatedCredential or Development")
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
			return badParameter(key, query.Get(key), fmt.Sprintf("nothing with auth=%s", name))
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
