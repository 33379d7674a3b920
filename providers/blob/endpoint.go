package bloblease

import (
	"errors"
	"net"
	"net/url"
	"strings"

	"github.com/distributedleasing/leasing/abstractions/providerkit"
)

// endpoint is where an account is. It holds no secret.
type endpoint struct {
	scheme    string // http or https
	host      string // with a port, if it is not the scheme's own
	account   string
	inPath    bool   // the account's name is in the path, as with Azurite, and not in the host
	container string // "" if the address names none
}

// service is the address of the account.
func (e endpoint) service() string {
	address := e.scheme + "://" + e.host
	if e.inPath {
		address += "/" + e.account
	}
	return address
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
	e := endpoint{scheme: scheme, host: host}
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	first, _, dotted := strings.Cut(name, ".")
	e.inPath = !dotted || net.ParseIP(strings.Trim(name, "[]")) != nil
	e.account = first
	var parts []string
	if path = strings.Trim(path, "/"); path != "" {
		parts = strings.Split(path, "/")
	}
	if e.inPath {
		if len(parts) == 0 {
			return e, errPath
		}
		e.account, parts = parts[0], parts[1:]
	}
	switch len(parts) {
	case 0:
	case 1:
		e.container = parts[0]
	default:
		return e, errPath
	}
	return e, nil
}
