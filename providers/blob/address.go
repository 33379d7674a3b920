package bloblease

import (
	"errors"
	"net"
	"net/url"
	"os"
	"regexp"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
	"github.com/distributedleasing/leasing/auth"
)

// endpoint is where an account is. It holds no secret.
type endpoint struct {
	service   string // the address of the account
	account   string
	container string // "" if the address names none
}

func badAccountURL(want string) error {
	return invalid("AccountURL", providerkit.NotShown, want)
}

// splitAccountURL takes an AccountURL apart: what is before the query, and the
// query, which is a SAS. The errors of net/url would quote it.
func splitAccountURL(text string) (e endpoint, sas string, err error) {
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Opaque != "" || u.Hostname() == "" {
		return e, "", badAccountURL("https://account.blob.core.windows.net, with nothing or /container behind it")
	}
	if u.User != nil || u.Fragment != "" {
		return e, "", badAccountURL("no user, no password and no fragment: keys go into Options.AccountKey")
	}
	e, err = newEndpoint(u.Scheme, u.Host, u.Path)
	if err != nil {
		return e, "", badAccountURL(err.Error())
	}
	return e, u.RawQuery, nil
}

// errPath says what paths there may be.
var errPath = errors.New("nothing or /container behind the host; where the host is an address or localhost, /account comes first")

// newEndpoint reads the path behind a host. An emulator's host is no name with the
// account in it, so the account is in the path
// (learn.microsoft.com/azure/storage/common/storage-connect-azurite).
func newEndpoint(scheme, host, path string) (endpoint, error) {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	account, _, dotted := strings.Cut(name, ".")
	at := endpoint{service: scheme + "://" + host, account: account}
	first, rest, _ := strings.Cut(strings.Trim(path, "/"), "/")
	if !dotted || net.ParseIP(strings.Trim(name, "[]")) != nil {
		if first == "" {
			return at, errPath
		}
		at.service, at.account = at.service+"/"+first, first
		first, rest, _ = strings.Cut(rest, "/")
	}
	if rest != "" {
		return at, errPath
	}
	at.container = first
	return at, nil
}

// schemes are those of URLs, and what they stand for.
var schemes = map[string]string{"azblob": "https", "azblob+http": "http"}

// publicCloud is behind the name of an account that is not written as a host.
const publicCloud = ".blob.core.windows.net"

// readURL puts what the URL says into the other fields.
func (o *Options) readURL() error {
	u, err := providerkit.ParseURL(o.URL, "azblob", "azblob+http")
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
		return o.readAddress(u)
	}
	if u.Host != "" || u.User != "" || u.Scheme != "azblob" {
		return providerkit.BadURL("azblob:///container?connection_string_env=NAME: the connection string has the account")
	}
	o.Container = strings.TrimPrefix(u.Path, "/")
	return nil
}

// readAddress sets AccountURL, Container and AccountKey.
func (o *Options) readAddress(u providerkit.URL) error {
	host, key := u.Host, u.Password.Reveal()
	if host == "" || !hostname.MatchString(host) || u.User != "" && key == "" {
		return providerkit.BadURL("azblob://account/container, or azblob://account:key@host/container with a key's / written as %2F, + as %2B and = as %3D")
	}
	if accountName.MatchString(host) && u.Scheme == "azblob" && host != "localhost" {
		host += publicCloud
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
	o.AccountURL, o.Container, o.AccountKey = at.service, at.container, key
	return nil
}

var (
	accountName = regexp.MustCompile(`^[a-z0-9]{3,24}$`)
	variable    = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]{0,63}$`)
	hostname    = regexp.MustCompile(`^(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]+)(:[0-9]{1,5})?$`)
	// sasParameter is the form of those of account, service and user delegation SAS, and of no option
	// (learn.microsoft.com/rest/api/storageservices/delegate-access-with-shared-access-signature).
	sasParameter = regexp.MustCompile(`^s[a-z]{1,6}$`)
)

// readQuery sets the fields that parameters name.
func (o *Options) readQuery(query url.Values) error {
	sas, rest := url.Values{}, url.Values{}
	for key, values := range query {
		switch {
		case sasParameter.MatchString(key):
			sas[key] = values
		case key != "auth" && key != "connection_string_env":
			rest[key] = values
		case len(values) != 1:
			return providerkit.BadParameter(key, strings.Join(values, " and "), "one value")
		}
	}
	o.SAS = sas.Encode()
	if rest.Has("container") {
		return providerkit.BadParameter("container", rest.Get("container"), "it behind the account")
	}
	err := providerkit.SetAll(o, rest)
	if err == nil && query.Has("connection_string_env") {
		err = o.readVariable(query.Get("connection_string_env"))
	}
	if err == nil && query.Has("auth") {
		err = o.readAuth(query.Get("auth"))
	}
	return err
}

// readVariable sets ConnectionString.
func (o *Options) readVariable(name string) error {
	if o.ConnectionString = os.Getenv(name); o.ConnectionString != "" {
		return nil
	}
	value := any(name)
	if !variable.MatchString(name) { // perhaps the string itself
		value = providerkit.NotShown
	}
	return invalid("URL parameter connection_string_env", value, "the name of a variable that is set to a connection string")
}

// readAuth sets Auth.
func (o *Options) readAuth(mode string) (err error) {
	if strings.EqualFold(mode, "Environment") {
		o.Auth, err = auth.FromEnvironment()
	} else if o.Auth.Mode.UnmarshalText([]byte(mode)) != nil {
		err = providerkit.BadParameter("auth", mode, "Environment, or a mode of package auth: Auto, ManagedIdentity, ...")
	}
	return err
}
