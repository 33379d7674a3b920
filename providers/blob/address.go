package bloblease

import (
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// endpoint is the address of an account. It holds no secret.
type endpoint struct {
	service   string // the address of the account
	account   string
	container string // "" if the address names none
}

func badAccountURL(want string) error {
	return providerkit.BadOption("AccountURL", providerkit.NotShown, want)
}

// readAccountURL splits AccountURL into the account, a container, and the query, which is a SAS.
// It drops errors from net/url, which would quote the URL.
func (o *Options) readAccountURL() (at endpoint, err error) {
	u, err := url.Parse(o.AccountURL)
	switch {
	case err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" || u.Hostname() == "":
		return at, badAccountURL("https://account.blob.core.windows.net, alone or with /container")
	case u.User != nil || u.Fragment != "":
		return at, badAccountURL("no user, no password and no fragment: keys go into Options.AccountKey")
	case u.RawQuery != "" && o.SAS != "":
		return at, badAccountURL("no query, since Options.SAS is set")
	}
	at, ok := newEndpoint(u.Scheme, u.Host, u.Path)
	switch {
	case !ok:
		return at, badAccountURL(wantPath)
	case at.container != "" && o.Container != "" && o.Container != at.container:
		return at, providerkit.BadOption("Container", o.Container, "the container of Options.AccountURL, or no value")
	case at.container != "":
		o.Container = at.container
	}
	o.SAS = strings.TrimPrefix(o.SAS+u.RawQuery, "?")
	return at, o.validateIdentity(at.service)
}

// wantPath lists the valid paths.
const wantPath = "no path or /container after the host; /account precedes the path for a host that is an address or localhost"

// newEndpoint reads the path after a host. An emulator's host name does not contain
// the account, so the account is in the path
// (learn.microsoft.com/azure/storage/common/storage-connect-azurite).
func newEndpoint(scheme, host, path string) (at endpoint, ok bool) {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	account, _, dotted := strings.Cut(name, ".")
	at = endpoint{service: scheme + "://" + host, account: account}
	first, rest, _ := strings.Cut(strings.Trim(path, "/"), "/")
	if !dotted || net.ParseIP(strings.Trim(name, "[]")) != nil {
		if first == "" {
			return at, false
		}
		at.service, at.account = at.service+"/"+first, first
		first, rest, _ = strings.Cut(rest, "/")
	}
	at.container = first
	return at, rest == ""
}

// schemes maps the schemes of URLs to those of the service.
var schemes = map[string]string{"azblob": "https", "azblob+http": "http"}

// publicCloud completes the host of an account that is given only by its name.
const publicCloud = ".blob.core.windows.net"

var (
	accountName = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
	variable    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	hostname    = regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`)
	// sasParameter matches the names of the parameters of account, service and user delegation SAS.
	// No option has a name of this form
	// (learn.microsoft.com/rest/api/storageservices/delegate-access-with-shared-access-signature).
	sasParameter = regexp.MustCompile(`^s[a-z]{1,6}$`)
)

// readURL sets the other fields from the URL.
func (o *Options) readURL() error {
	u, err := providerkit.ParseURL(o.URL, urlSchemes...)
	if err != nil {
		return err
	}
	if o.hasIdentity() || o.Container != "" {
		return providerkit.BadURL("no Container, Auth, Credential, AccountKey and SAS, since they are in the URL; or AccountURL")
	}
	sas, names := url.Values{}, u.Query["connection_string_env"]
	delete(u.Query, "connection_string_env")
	for key, values := range u.Query {
		if sasParameter.MatchString(key) {
			sas[key] = values
			delete(u.Query, key)
		}
	}
	o.URL, o.SAS = "", sas.Encode()
	if err := providerkit.SetAll(o, u.Query); err != nil {
		return err
	}
	if len(names) > 0 {
		return o.readVariable(u, names[0])
	}
	return o.readAddress(u)
}

// readAddress sets AccountURL, Container and AccountKey.
func (o *Options) readAddress(u providerkit.URL) error {
	host, key := u.Host, u.Password.Reveal()
	if !hostname.MatchString(host) || u.User != "" && key == "" {
		return providerkit.BadURL("azblob://account/container, or azblob://account:key@host/container with a key's / written as %2F, + as %2B and = as %3D")
	}
	if accountName.MatchString(host) && u.Scheme == "azblob" && host != "localhost" {
		host += publicCloud
	}
	at, ok := newEndpoint(schemes[u.Scheme], host, u.Path)
	switch {
	case !ok:
		return providerkit.BadURL(wantPath)
	case at.container == "" || o.Container != "":
		return providerkit.BadURL("/container after the account, and nowhere else")
	case u.User != "" && u.User != at.account:
		return providerkit.BadURL("account:key@ before the account's host")
	}
	o.AccountURL, o.Container, o.AccountKey = at.service, at.container, key
	return nil
}

// readVariable sets ConnectionString and Container.
func (o *Options) readVariable(u providerkit.URL, name string) error {
	if u.Host != "" || u.User != "" || u.Scheme != "azblob" {
		return providerkit.BadURL("azblob:///container?connection_string_env=NAME: the connection string has the account")
	}
	o.Container = strings.TrimPrefix(u.Path, "/")
	if o.ConnectionString = os.Getenv(name); o.ConnectionString != "" {
		return nil
	}
	value := any(name)
	if !variable.MatchString(name) { // perhaps the connection string itself
		value = providerkit.NotShown
	}
	return providerkit.BadOption("URL parameter connection_string_env", value, "the name of a variable that is set to a connection string")
}
